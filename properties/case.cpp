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

runner::Outcome Bench::run_one(const Problem& problem, const Inputs& inputs, runner::Filling filling) {
  const runner::Call call{kernel().index, problem, inputs, filling};
  return std::move(run({&call, 1}).front());
}

}  // namespace normgate
