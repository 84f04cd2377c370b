#include "properties/property.hpp"

namespace normgate {

const Inputs& Case::inputs() const {
  if (!inputs_) inputs_ = make_inputs(problem_);
  return *inputs_;
}

const Truth& Case::truth() const {
  if (!truth_) truth_ = forward_truth(problem_, inputs(), wanted_);
  return *truth_;
}

const Truth& Case::gradient(SavedUse use) const {
  // Without handed statistics there is one function: the derivative.
  const bool handed = problem_.phase == Phase::backward_training && problem_.saved;
  if (!handed || use == SavedUse::undeclared) use = SavedUse::recomputes;
  const auto known = gradients_.find(use);
  if (known != gradients_.end()) return known->second;
  return gradients_.emplace(use, backward_truth(problem_, inputs(), use)).first->second;
}

const Differences& Case::differences() const {
  if (!differences_) differences_ = finite_differences(problem_, inputs());
  return *differences_;
}

const Tangent& Case::tangent_along(std::size_t which, const std::function<Direction()>& make) const {
  const auto known = tangents_.find(which);
  if (known != tangents_.end()) return known->second;
  return tangents_.emplace(which, tangent(problem_, inputs(), make())).first->second;
}

const Case& Case::derived(std::size_t which, const std::function<Case()>& make) const {
  const auto known = derived_.find(which);
  if (known != derived_.end()) return *known->second;
  return *derived_.emplace(which, std::make_shared<const Case>(make())).first->second;
}

runner::Outcome Bench::run_one(const Problem& problem, const Inputs& inputs, runner::Filling filling) {
  const runner::Call call{kernel().index, problem, inputs, filling};
  return std::move(run({&call, 1}).front());
}

const SharedBounds& Case::bounds_of(const Claim& claim, const std::function<Bounds()>& make) const {
  if (!bounds_ || bounds_->first != claim) bounds_.emplace(claim, make());
  return bounds_->second;
}

}  // namespace normgate
