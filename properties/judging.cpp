#include "properties/judging.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

Shape coordinates(const Shape& shape, AxisSet axes, std::size_t index) {
  Shape at{};
  auto rest = static_cast<std::int64_t>(index);
  for (std::size_t a = axis_count; a-- > 0;) {
    if (!axes.has(a) || shape[a] == 0) continue;
    at[a] = rest % shape[a];
    rest /= shape[a];
  }
  return at;
}

}  // namespace

bool supports(const Subject& subject, Role role) {
  return ((subject.kernel.roles[static_cast<std::size_t>(subject.phase)].supported >> index_of(role)) & 1U) != 0;
}

bool is_primary(const Subject& subject) { return subject.convention == subject.kernel.conventions.front(); }

bool is_new_to_backward(const Subject& subject) {
  const bool training = has_own_statistics(subject.phase);
  const auto seen_by_gradients = [&](Convention convention) {
    const bool divides = training && subject.row.centred && convention.normalizing == NormalizingDivisor::n_minus_1;
    if (!divides) convention.normalizing = NormalizingDivisor::n;
    if (!divides || convention.single == SingleCount::unchanged) convention.single = SingleCount::zero;
    if (training || convention.momentum != MomentumForm::accumulated_weight) convention.momentum = {};
    convention.stored = {};
    if (subject.phase == Phase::double_backward) {  // nothing is saved, nothing added to
      convention.saved = {};
      convention.gradients = {};
    }
    return convention;
  };
  for (const Convention& other : subject.kernel.conventions) {
    if (other == subject.convention) return true;
    if (seen_by_gradients(other) == seen_by_gradients(subject.convention)) return false;
  }
  return true;
}

std::string place(const Problem& problem, Role role, std::size_t index) {
  const AxisSet axes = axes_of(role, row_of(problem.variant));
  const Shape at = coordinates(problem.shape, axes, index);
  constexpr std::array<char, axis_count> letters{'n', 'g', 'k', 's'};
  std::string text;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (axes.has(a)) text += fmt::format("{}{}={}", text.empty() ? "" : " ", letters[a], at[a]);
  return fmt::format("{}[{}]", name_of(role), text);
}

std::string place(const Problem& problem, Role role, std::size_t index, std::span<const float> values) {
  constexpr std::size_t reach = 2;
  const std::size_t first = index >= reach ? index - reach : 0;
  const std::size_t last = std::min(values.size(), index + reach + 1);
  std::string neighbours;
  for (std::size_t i = first; i < last; ++i) {
    const std::string value = shortest(static_cast<double>(values[i]));
    neighbours += fmt::format("{}{}", neighbours.empty() ? "" : " ", i == index ? "[" + value + "]" : value);
  }
  return fmt::format("{}  among {}{}{}", place(problem, role, index), first > 0 ? "… " : "", neighbours,
                     last < values.size() ? " …" : "");
}

std::string both_ways(double value) { return fmt::format("{}  {}", hexfloat(value), shortest(value)); }

std::int64_t group_of(const Problem& problem, Role role, std::size_t index) {
  if (role == Role::mean || role == Role::stat) return static_cast<std::int64_t>(index);
  if (role != Role::y && role != Role::x && role != Role::dx && role != Role::dy && role != Role::ddy) return -1;
  return group_index(problem, coordinates(problem.shape, axes_of(role, row_of(problem.variant)), index));
}

namespace {

std::string_view in_words(ScalarType type) { return type == ScalarType::float32 ? "float32" : "double"; }

// The sum that decides an element: of a group, or of a channel's terms, in its groups and over them.
std::string sum_in_words(const Problem& problem, const Claim& claim, Role role) {
  const bool parameter = role == Role::dgamma || role == Role::dbeta;
  if (problem.phase == Phase::merge_statistics)
    return fmt::format("{} merges of depth {}", in_words(claim.accumulator),
                       depth(claim.group_sum, group_size(problem)));
  if (!parameter)
    return fmt::format("{} sums of depth {}", in_words(claim.accumulator), depth(claim.group_sum, group_size(problem)));
  const VariantRow& row = row_of(problem.variant);
  std::int64_t share = 1, groups = 1;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (!row.affine.has(a)) (row.reduced.has(a) ? share : groups) *= problem.shape[a];
  std::string text = fmt::format("{} sums of depth {}", in_words(claim.accumulator), depth(claim.group_sum, share));
  const bool accumulates = is_backward(problem.phase) && problem.convention.gradients == Gradients::accumulate;
  if (groups > 1)
    text += fmt::format(" in each of {} groups and {} over them", groups, depth(claim.across_groups, groups));
  return text + (accumulates ? ", added to what was there" : "");
}

// Where the statistics come from.
std::string statistics_in_words(const Problem& problem, const Claim& claim) {
  constexpr std::array<std::string_view, 3> algorithms{"two-pass", "one-pass", "Welford"};
  const std::string_view type = in_words(claim.statistics);
  const std::string own = fmt::format("{} {} statistics", algorithms[static_cast<std::size_t>(claim.variance)], type);
  if (!is_backward(problem.phase)) return own;
  if (problem.phase == Phase::backward_inference) return fmt::format("given statistics in {}", type);
  if (!problem.saved) return own;
  switch (claim.saved_use) {
    case SavedUse::short_form:
      return fmt::format("handed statistics in {}, short form", type);
    case SavedUse::textbook:
      return fmt::format("handed statistics in {}, textbook form", type);
    case SavedUse::from_output:
      return fmt::format("xhat from y in {}", type);
    case SavedUse::undeclared:
      return fmt::format("{} or handed ones, undeclared", own);
    case SavedUse::recomputes:
      break;
  }
  return own;
}

}  // namespace

std::string bound_in_words(const Case& c, const Claim& claim, std::size_t element, Role role) {
  const auto& problem = c.problem();
  std::string text =
      fmt::format("{}, {}, {}; {} = {}", sum_in_words(problem, claim, role), statistics_in_words(problem, claim),
                  claim.form == AffineForm::folded ? "folded" : "centred",
                  problem.phase == Phase::merge_statistics ? "parts" : "n", group_size(problem));
  const std::int64_t group = group_of(problem, role, element);
  if (group >= 0 && row_of(problem.variant).centred) {
    const Truth& truth = is_backward(problem.phase) ? c.gradient(claim.saved_use) : c.truth();
    const auto& g = truth.groups[static_cast<std::size_t>(group)];
    if (g.variance.hi > 0)
      text += fmt::format(", |mean|/sigma = {:.4g}", std::fabs(g.mean.hi) / std::sqrt(g.variance.hi));
  }
  return text;
}

Bounds around_derivative(Bounds bounds, const Truth& function, const Truth& derivative) {
  for (const Role role : gradient_roles) {
    auto& tolerance = bounds.tolerance[role];
    for (std::size_t i = 0; i < tolerance.size(); ++i) {
      const Exact& f = function.out[role][i];
      const Exact& d = derivative.out[role][i];
      const double apart = f.finite() && d.finite() ? std::fabs((f.hi - d.hi) + (f.lo - d.lo)) + f.bound + d.bound
                           : distance(f.hi, d) == 0 ? 0
                                                    : infinity;
      tolerance[i] = (tolerance[i] + apart) * (1 + 0x1p-50);
    }
  }
  return bounds;
}

namespace {

// Element by element the larger of two bounds.
void widen(Bounds& bounds, const Bounds& other) {
  for (const Role role : gradient_roles) {
    auto& tolerance = bounds.tolerance[role];
    for (std::size_t i = 0; i < tolerance.size(); ++i) tolerance[i] = std::max(tolerance[i], other.tolerance[role][i]);
  }
  for (std::size_t q = 0; q < bounds.in_range.size(); ++q) bounds.in_range[q] = bounds.in_range[q] && other.in_range[q];
}

}  // namespace

Demand demand_of(const Case& c, const Subject& subject) {
  const Problem& problem = c.problem();
  const Claim& claim = subject.kernel.claim;
  if (!is_backward(problem.phase)) {
    const Truth& truth = c.truth();
    return {&truth, c.bounds_of(claim, [&] { return forward_bounds(problem, c.inputs(), truth, claim); })};
  }
  const bool handed = problem.phase == Phase::backward_training && problem.saved;
  const SavedUse use = handed ? claim.saved_use : SavedUse::recomputes;
  const Truth& truth = c.gradient(use);
  const auto bounds = [&] {
    if (use != SavedUse::undeclared) return backward_bounds(problem, c.inputs(), truth, use, claim);
    Bounds of_all = backward_bounds(problem, c.inputs(), truth, SavedUse::recomputes, claim);
    for (const SavedUse other : {SavedUse::short_form, SavedUse::textbook}) {
      const Truth& function = c.gradient(other);
      widen(of_all, around_derivative(backward_bounds(problem, c.inputs(), function, other, claim), function, truth));
    }
    return of_all;
  };
  return {&truth, c.bounds_of(claim, bounds)};
}

std::int32_t fitting_uses(const Case& c, const Subject& subject, const Inputs& outputs) {
  const Problem& problem = c.problem();
  const Claim& claim = subject.kernel.claim;
  const bool handed = problem.phase == Phase::backward_training && problem.saved;
  if (!handed || claim.saved_use != SavedUse::undeclared) return -1;
  std::int32_t fitting = 0;
  for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes}) {
    const Truth& function = c.gradient(use);
    const Demand demand{&function, backward_bounds(problem, c.inputs(), function, use, claim)};
    Judgement judgement;
    judge_within_bounds(c, claim, demand, outputs, written(problem, gradient_roles), judgement);
    if (!judgement.violation) fitting |= 1 << static_cast<std::int32_t>(use);
  }
  return fitting;
}

Demand demand_around_derivative(const Case& c, const Subject& subject) {
  Demand demand = demand_of(c, subject);
  const Truth& derivative = c.gradient(SavedUse::recomputes);
  if (demand.truth == &derivative) return demand;
  demand.bounds = around_derivative(*demand.bounds, *demand.truth, derivative);
  demand.truth = &derivative;
  return demand;
}

void judge_within_bounds(const Case& c, const Claim& claim, const Demand& demand, const Inputs& outputs,
                         std::span<const Role> roles, Judgement& judgement) {
  const Bounds& bounds = *demand.bounds;
  for (const Role role : roles) {
    const auto& truth = demand.truth->out[role];
    const auto& tolerance = bounds.tolerance[role];
    for (std::size_t i = 0; i < truth.size(); ++i) {
      if (tolerance[i] == infinity) {
        ++judgement.not_judged;
        continue;
      }
      ++judgement.elements;
      const float value = outputs[role][i];
      const double got = static_cast<double>(value);
      const double error = distance(got, truth[i]);
      if (error == 0) {
        if (judgement.peak[role].index < 0) judgement.take(role, i, 0);
        continue;
      }
      const double ulps = error / ulp_float32(bounds.scale[role][i]);
      const double share = error / tolerance[i];
      // A bound as large as the scale itself (1/D of a constant group with a tiny eps) says nothing about quality.
      const bool telling = tolerance[i] < 0.5 * bounds.scale[role][i] || error > tolerance[i];
      if (telling) judgement.take(role, i, share);
      // Ulps of a row that is zero throughout (a constant group without beta) would count nothing.
      const bool has_scale = bounds.scale[role][i] > 0x1p-126;
      if (has_scale) judgement.worst_row_ulp = std::max(judgement.worst_row_ulp, ulps);
      // Only an error beyond tolerance and the truth's own bound is a proof.
      if (error <= tolerance[i] + truth[i].bound || judgement.violation) continue;
      Violation violation;
      violation.at = place(c.problem(), role, i, outputs[role]);
      violation.got = both_ways(got);
      violation.want = both_ways(truth[i].hi);
      violation.error = fmt::format("{}, {:.4g} of the bound {:.4g}   ({})",
                                    has_scale ? fmt::format("{:.4g} row ulp", ulps) : "in a row of zeros", share,
                                    tolerance[i], bound_in_words(c, claim, i, role));
      judgement.violation = std::move(violation);
    }
  }
}

void judge_equal(const Case& c, const Inputs& first, const Inputs& second, std::span<const Role> roles,
                 const Bounds* bounds, std::string_view what, Judgement& judgement) {
  for (const Role role : roles) {
    for (std::size_t i = 0; i < first[role].size(); ++i) {
      ++judgement.elements;
      const float a = first[role][i];
      const float b = second[role][i];
      if (same_value(a, b)) continue;
      double allowed = 0;
      if (bounds != nullptr) {
        allowed = 2 * bounds->tolerance[role][i];
        if (std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= allowed) continue;
        if (allowed == infinity) continue;
      }
      if (judgement.violation) return;
      Violation violation;
      violation.at = place(c.problem(), role, i, second[role]);
      violation.got = fmt::format("{}   {}", both_ways(static_cast<double>(b)), what);
      violation.want = both_ways(static_cast<double>(a));
      const double difference = std::fabs(static_cast<double>(a) - static_cast<double>(b));
      violation.error = bounds == nullptr
                            ? fmt::format("differs by {:.4g}; equal bits are promised", difference)
                            : fmt::format("differs by {:.4g}; the sum of both bounds is {:.4g}", difference, allowed);
      judgement.violation = std::move(violation);
      return;
    }
  }
}

std::vector<Role> written(const Problem& problem, std::span<const Role> roles) {
  std::vector<Role> result;
  for (const Role role : roles)
    if (use_of(problem, role).write) result.push_back(role);
  return result;
}

std::string declined_variations(std::span<const runner::Outcome> outcomes) {
  if (outcomes.size() < 2) return "";
  for (const runner::Outcome& outcome : outcomes.subspan(1))
    if (outcome.status == runner::Status::ok) return "";
  return outcomes[1].text.empty() ? "no reason given" : outcomes[1].text;
}

runner::Call call_of(const Problem& problem, const Inputs& inputs, const Subject& subject, runner::Filling filling) {
  return {subject.kernel.index, problem, inputs, filling};
}

std::vector<runner::Call> one_call(const Case& c, const Subject& subject) {
  return {call_of(c.problem(), c.inputs(), subject)};
}

}  // namespace normgate
