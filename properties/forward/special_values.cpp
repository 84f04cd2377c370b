// NaN and infinities go where the definition sends them and nowhere else (MATH §6). Per output element, by the inputs
// that its definition depends on:
//   (a) none is NaN or infinite: the ordinary bound holds, strictly, for every kernel: nothing leaks;
//   (b) one is NaN: the output is NaN (0 * NaN = NaN);
//   (c) one is infinite, none NaN: the definition's value in extended reals, or NaN; a finite number only where the
//       definition gives that number; exactly the definition's value if the kernel promises ieee_specials.
// The variance of a single value under n-1 does not depend on it where the convention states a value for it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/dependency.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_forward(subject.phase); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "special_values");
  for (std::int64_t round = 0; round < planner.by_effort(2, 2, 8); ++round)
    for (const std::int64_t length : planner.lengths(8200, 4)) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = 2 + length % 4;
      recipe.profile = Profile::special;
      // The first step of a cumulative average may well ignore the old state: its weight is 0.
      recipe.step = 2 + length % 3;
      planner.add(recipe);
    }
  planner.cover([](Profile profile) { return profile == Profile::special; });
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  const Inputs& inputs = c.inputs();
  const auto& row = subject.row;
  const auto& claim = subject.kernel.claim;
  const auto bounds = forward_bounds(problem, inputs, c.truth(), claim);
  const auto& outputs = outcomes[0].outputs;
  const Groups groups(problem.shape, row);
  const bool training = problem.phase == Phase::forward_training;

  const auto demand = [&](Role role, std::size_t i, const Dependency& depends) {
    const Exact& truth = c.truth().out[role][i];
    const auto got = static_cast<double>(outputs[role][i]);
    std::string wrong;
    if (depends.nan) {
      if (!std::isnan(got)) wrong = "a NaN is among the inputs that it depends on";
    } else if (depends.infinite) {
      // A finite value is 0 * gamma + beta, exact, or (a floor under -infinity) one with an ordinary bound.
      const double tolerance = bounds.tolerance[role][i];
      const bool is_value = got == truth.hi || (std::isnan(got) && std::isnan(truth.hi)) ||
                            (tolerance < infinity && distance(got, truth) <= tolerance + truth.bound);
      if (!is_value && (claim.ieee_specials || !std::isnan(got)))
        wrong = claim.ieee_specials ? "an infinity is among its inputs; ieee_specials promises the definition's value"
                                    : "an infinity is among its inputs; the definition's value or NaN is right";
    } else {
      const double tolerance = bounds.tolerance[role][i];
      if (tolerance == infinity) {
        ++judgement.not_judged;
        return;
      }
      const double error = distance(got, truth);
      judgement.worst_share = std::max(judgement.worst_share, error == 0 ? 0 : error / tolerance);
      if (error > tolerance + truth.bound)
        wrong = fmt::format("{:.4g} of the bound; no input that it depends on is NaN or infinite", error / tolerance);
    }
    ++judgement.elements;
    if (wrong.empty() || judgement.violation) return;
    Violation violation;
    violation.at = place(problem, role, i, outputs[role]);
    violation.got = both_ways(got);
    violation.want = both_ways(truth.hi);
    violation.error = wrong;
    judgement.violation = std::move(violation);
  };

  const auto& convention = problem.convention;
  const bool stated = groups.size() == 1 && convention.single != SingleCount::nan;
  const bool normalizing_stated = stated && row.centred && convention.normalizing == NormalizingDivisor::n_minus_1;
  const bool stored_stated = stated && convention.stored == StoredDivisor::n_minus_1;
  const auto given = [&](std::int64_t q) {
    Dependency result;
    if (problem.given == Given::saved) {
      if (row.centred) result.add(inputs[Role::mean][static_cast<std::size_t>(q)]);
      result.add(inputs[Role::stat][static_cast<std::size_t>(q)]);
    } else if (problem.given == Given::running) {
      const auto channel = static_cast<std::size_t>(dense_index(problem.shape, row.running, groups.origin(q)));
      result.add(inputs[Role::running_mean][channel]);
      result.add(inputs[Role::running_var][channel]);
    }
    return result;
  };
  std::vector<Dependency> of_channel(training && problem.running ? outputs[Role::running_var].size() : 0);
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    Dependency group = given(q);
    if (training)
      groups.for_each(q,
                      [&](std::int64_t i, const Shape&) { group.add(inputs[Role::x][static_cast<std::size_t>(i)]); });
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const auto channel = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
      Dependency depends = group;
      depends.add(inputs[Role::x][index]);
      if (problem.gamma) depends.add(inputs[Role::gamma][channel]);
      if (problem.beta) depends.add(inputs[Role::beta][channel]);
      demand(Role::y, index, depends);
    });
    for (const Role role : {Role::mean, Role::stat})
      if (training && !c.truth().out[role].empty())
        demand(role, static_cast<std::size_t>(q), role == Role::stat && normalizing_stated ? Dependency{} : group);
    if (!of_channel.empty())
      of_channel[static_cast<std::size_t>(dense_index(problem.shape, row.running, groups.origin(q)))].add(group);
  }
  for (std::size_t channel = 0; channel < of_channel.size(); ++channel)
    for (const Role role : {Role::running_mean, Role::running_var}) {
      Dependency depends = role == Role::running_var && stored_stated ? Dependency{} : of_channel[channel];
      depends.add(inputs[role][channel]);
      demand(role, channel, depends);
    }
  return judgement;
}

}  // namespace

const Property special_values{
    "special_values", "NaN and infinities reach exactly the outputs that depend on them, as the definition says.",
    applies,          plan,
    one_call,         judge};

}  // namespace normgate
