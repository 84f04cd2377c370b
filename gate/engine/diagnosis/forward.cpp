// What explains a wrong forward: outputs that are no results, other conventions and parameters.
#include "gate/engine/diagnosis/forward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace normgate::diagnosis {

Diagnosed ForwardDiagnosis::find() {
  quick_ = true;
  seen_at_the_door();
  if (!suspects_.empty() && found_.empty()) {
    handed_on();
    for_each_prediction(
        [&](const std::string& diagnosis, const std::string& sentence, const std::string& advice, const Fit& fit) {
          if (!fit.explains) return;
          found_.push_back({diagnosis, sentence + (fit.in_some_groups ? ", in some of the groups" : ""),
                            fit.in_some_groups ? "" : advice, 1, fit.matched, fit.residual});
        });
    if (beyond_bound_) {
      flushed_subnormals();
      short_output();
      folded_form();
      approximate_root();
      of_other_channels();
      swapped_elements();
      clipped();
      one_pass_variance();
      gain_per_group();
      lower_precision();
      sequential_sums();
    }
  }
  return {!suspects_.empty() || !found_.empty(), found_};
}

bool ForwardDiagnosis::contradicts() {
  return all_contradicted([this](const Visit& visit) { for_each_prediction(visit); });
}

void ForwardDiagnosis::handed_on() {
  if (!any_[Role::y]) return;
  const auto& y = outcome_.outputs[Role::y];
  const auto& wanted = truth_.out[Role::y];
  if (asked("tail not normalized") && !problem_.in_place && only_suspected({Role::y}) && suspects_.size() < y.size()) {
    bool nonzero = false;
    const bool same = std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
      nonzero = nonzero || y[place.index] != 0;
      return y[place.index] == inputs_[Role::x][place.index];
    });
    if (same && nonzero)
      return add(0, "tail not normalized", "elements that are handed on as they came in: y is x there");
  }
  const bool zero = std::all_of(y.begin(), y.end(), [](float value) { return value == 0; });
  const bool finite = std::all_of(wanted.begin(), wanted.end(), [](const Exact& value) { return value.finite(); });
  if (asked("all outputs zero") && zero && finite && y.size() >= static_cast<std::size_t>(matched_at_least))
    add(2, "all outputs zero", "y is zero everywhere");
}

void ForwardDiagnosis::for_each_prediction(const Visit& visit) const {
  conventions(visit);
  parameters(visit);
  if (truth_.groups.size() != static_cast<std::size_t>(groups_.count())) return;
  other_eps(visit);
  if (problem_.phase == Phase::forward_training && groups_.size() > 0) {
    other_statistics(visit);
    other_divisors(visit);
    other_axes(visit);
  }
}

void ForwardDiagnosis::parameters(const Visit& visit) const {
  const bool plain = problem_.convention.gamma == GammaOffset::plain;
  const auto with = [&](Role role, const std::string& diagnosis, const std::string& sentence,
                        const std::function<double(double)>& change) {
    if (inputs_[role].empty() || !asked(diagnosis)) return;
    Inputs inputs = inputs_;
    for (float& value : inputs[role]) value = static_cast<float>(change(static_cast<double>(value)));
    if (inputs[role] != inputs_[role] && worth_a_truth(role, inputs))
      visit(diagnosis, sentence, "", whole(problem_, inputs));
  };
  with(Role::gamma, "gamma ignored", "the result without gamma", [&](double) { return plain ? 1.0 : 0.0; });
  with(Role::beta, "beta ignored", "the result without beta", [](double) { return 0.0; });
  with(Role::gamma, "absolute value of gamma", "the result with |gamma|: its sign is lost",
       [](double value) { return std::fabs(value); });
  for (const ShortType& type : short_types)
    for (const Role role : {Role::x, Role::gamma, Role::beta, Role::running_mean, Role::running_var})
      with(role, fmt::format("{} rounded to {}", name_of(role), type.name),
           fmt::format("the result of {} rounded to {} bits, as {} has", name_of(role), type.bits, type.name),
           [&](double value) { return rounded(value, type.bits); });
  if (asked("an offset for the absent gamma") && inputs_[Role::gamma].empty() && !plain) {
    Problem problem = problem_;
    problem.gamma = true;
    Inputs inputs = inputs_;
    inputs[Role::gamma].assign(
        static_cast<std::size_t>(element_count(restricted(problem_.shape, axes_of(Role::gamma, subject_.row)))), 1);
    visit("an offset for the absent gamma", "y is twice as large where gamma is absent: 1+w with a w of 1", "",
          whole(problem, inputs));
  }
  for (const ShortType& type : short_types) {
    Problem problem = problem_;
    problem.momentum = rounded(problem_.momentum, type.bits, type.smallest);
    const std::string diagnosis = fmt::format("momentum rounded to {}", type.name);
    if (asked(diagnosis) && problem.momentum != problem_.momentum && (!quick_ || running_suspected()))
      visit(diagnosis, fmt::format("the result of a momentum rounded to {}", type.name), "", whole(problem, inputs_));
  }
  if (asked("saved statistic without eps") && written(Role::stat) && problem_.eps != 0 &&
      problem_.convention.saved == SavedStatistic::rstd && truth_.out[Role::stat].size() == truth_.groups.size()) {
    Truth truth = truth_;
    for (std::size_t i = 0; i < truth.groups.size(); ++i) {
      const double value = 1 / std::sqrt(truth.groups[i].variance.hi);
      truth.out[Role::stat][i] = {value, 0, std::isfinite(value) ? 0x1p-20 * value : 0};
    }
    visit("saved statistic without eps", "the saved reciprocal standard deviation leaves eps out", "",
          whole(truth, bounds_));
  }
  if (asked("gamma and beta swapped") && !inputs_[Role::gamma].empty() && !inputs_[Role::beta].empty()) {
    Inputs inputs = inputs_;
    std::swap(inputs[Role::gamma], inputs[Role::beta]);
    if (!quick_ || only_suspected({Role::y}))
      visit("gamma and beta swapped", "the result with gamma and beta in each other's place", "",
            whole(problem_, inputs));
  }
  swapped_outputs(visit);
  samples_counted(visit);
}

void ForwardDiagnosis::swapped_outputs(const Visit& visit) const {
  for (const auto& [one, other] :
       {std::pair{Role::mean, Role::stat}, std::pair{Role::running_mean, Role::running_var}}) {
    const std::string diagnosis = fmt::format("{} and {} swapped", name_of(one), name_of(other));
    if (!asked(diagnosis) || !written(one) || !written(other) || truth_.out[one].size() != truth_.out[other].size() ||
        (quick_ && !any_[one] && !any_[other]))
      continue;
    Truth truth = truth_;
    Bounds bounds = bounds_;
    std::swap(truth.out[one], truth.out[other]);
    std::swap(bounds.tolerance[one], bounds.tolerance[other]);
    visit(diagnosis, fmt::format("{} holds what belongs into {}, and the reverse", name_of(one), name_of(other)), "",
          whole(truth, bounds));
  }
}

bool ForwardDiagnosis::running_suspected() const { return any_[Role::running_mean] || any_[Role::running_var]; }

bool ForwardDiagnosis::worth_a_truth(Role role, const Inputs& changed) const {
  if (!quick_) return true;
  if (role == Role::running_mean || role == Role::running_var)
    return problem_.phase != Phase::forward_training || running_suspected();
  if (role != Role::gamma && role != Role::beta) return true;
  if (!only_suspected({Role::y})) return false;
  if (truth_.groups.size() != static_cast<std::size_t>(groups_.count())) return true;
  // y itself to first order: what the change moves, and what the worst suspects need.
  double before = 0;
  double after = 0;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    const GroupTruth& truth = truth_.groups[static_cast<std::size_t>(group)];
    if (!truth.mean.finite() || !truth.rstd.finite()) return true;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      if (!suspected(Role::y, index)) return;
      const auto c = static_cast<std::size_t>(dense_index(problem_.shape, affine_, at));
      const double change = static_cast<double>(changed[role][c]) - static_cast<double>(inputs_[role][c]);
      const double moved = role == Role::beta ? change : change * (x(i) - truth.mean.hi) * truth.rstd.hi;
      const double error = got(Role::y, index) - truth_.out[Role::y][index].hi;
      before = std::max(before, std::fabs(error) / bounds_.scale[Role::y][index]);
      after = std::max(after, std::fabs(error - moved) / bounds_.scale[Role::y][index]);
    });
  }
  return !(after > before / 2);
}

void ForwardDiagnosis::samples_counted(const Visit& visit) const {
  constexpr std::string_view name = "n-1 counts N instead of N*S";
  const double samples = static_cast<double>(problem_.shape[0]);
  const double values = static_cast<double>(groups_.size());
  if (!asked(name) || problem_.variant != Variant::batch_norm ||
      problem_.convention.stored != StoredDivisor::n_minus_1 ||
      problem_.convention.normalizing != NormalizingDivisor::n || !written(Role::running_var) || samples < 2 ||
      samples == values)
    return;
  const double weight = weight_of_new();
  Truth truth = truth_;
  for (std::size_t i = 0; i < truth.out[Role::running_var].size() && i < truth.groups.size(); ++i) {
    Exact& value = truth.out[Role::running_var][i];
    value.hi += weight * truth.groups[i].variance.hi * (samples / (samples - 1) - values / (values - 1));
    value.lo = 0;
    value.bound = 0x1p-22 * std::fabs(value.hi);
  }
  visit(std::string(name), "running_var takes in the variance times N/(N-1), though N*S values are counted", "",
        whole(truth, bounds_));
}
double ForwardDiagnosis::weight_of_new() const {
  switch (problem_.convention.momentum) {
    case MomentumForm::new_weight:
      return problem_.momentum;
    case MomentumForm::old_weight:
      return 1 - problem_.momentum;
    case MomentumForm::cumulative:
      return 1 / static_cast<double>(problem_.step);
    case MomentumForm::accumulated_weight:
      return 1;
  }
  return 1;
}

}  // namespace normgate::diagnosis
