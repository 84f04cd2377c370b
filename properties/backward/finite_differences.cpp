// dx, dgamma and dbeta agree with differences of the forward definition, which share no code with the closed form that
// other properties judge by.
//
// The tolerance is that of the derivative: the kernel's bound of the function that it computes, plus what that function
// differs from the derivative where the kernel declares its use of handed statistics, plus the witness' own bound.
// Preconditions: groups of at most 64 elements (the witness costs their square); statistics handed as they are; x at
// hand; groups at a kink of the forward (sqrt(v) at 0, max(v, eps) at eps) have no derivative, and their dx is left
// out.
#include <fmt/format.h>

#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::int64_t longest = 64;

bool applies(const Subject& subject) {
  const bool from_output =
      subject.phase == Phase::backward_training && subject.kernel.claim.saved_use == SavedUse::from_output;
  return is_backward(subject.phase) && is_new_to_backward(subject) && !from_output;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "finite_differences");
  std::vector<std::int64_t> lengths{1, 2, 3, 4, 5, 7, 8, 12, 17, 32};
  if (!planner.primary()) lengths = {1, 2, 3, 6, 16};
  if (effort != Effort::quick) lengths.insert(lengths.end(), {6, 9, 15, 16, 24, 33, 64});
  constexpr std::array profiles{Profile::conditioned, Profile::conditioned, Profile::outlier_channels,
                                Profile::near_constant, Profile::exact_sum};
  constexpr std::array kappas{1.0, 100.0, 3.0, 1.0, 0.0};
  constexpr std::array eps_values{1e-5F, 1.0F, 0.1F};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 12); ++round)
    for (const std::int64_t length : lengths) {
      if (round > 0 && effort == Effort::quick && length > 12) continue;
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 16 ? 1 : 2;
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = kappas[i % kappas.size()];
      recipe.level = 3;
      recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
      recipe.handed = Handed::nearest;
      planner.add(recipe);
      ++i;
    }
  // A floor above and below the variance; eps of the variance's order.
  for (const double eps : {0x1p-4, 4.0}) {
    Recipe recipe;
    recipe.length = 6;
    recipe.groups = 2;
    recipe.eps = eps;
    recipe.handed = Handed::nearest;
    planner.add(recipe);
  }
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  if (group_size(problem) > longest || problem.from_output || problem.handed != Handed::nearest ||
      problem.profile == Profile::special) {
    judgement.discarded = true;
    return judgement;
  }
  const Differences& differences = c.differences();
  // Differences in the place of the truth, under bounds that take in the witness' own.
  Truth witness;
  witness.groups = c.gradient(SavedUse::recomputes).groups;
  witness.out = differences.out;
  Demand demand = demand_around_derivative(c, subject);
  demand.truth = &witness;
  Bounds& bounds = demand.bounds.own();
  for (const Role role : gradient_roles)
    for (std::size_t i = 0; i < witness.out[role].size(); ++i) bounds.tolerance[role][i] += witness.out[role][i].bound;
  const Groups groups(problem.shape, subject.row);
  for (std::int64_t q = 0; q < groups.count(); ++q)
    if (differences.kink[static_cast<std::size_t>(q)])
      groups.for_each(
          q, [&](std::int64_t i, const Shape&) { bounds.tolerance[Role::dx][static_cast<std::size_t>(i)] = infinity; });
  judge_within_bounds(c, subject.kernel.claim, demand, outcomes[0].outputs, written(problem, gradient_roles),
                      judgement);
  return judgement;
}

}  // namespace

const Property finite_differences_of_the_forward{"finite_differences",
                                                 "Gradients agree with differences of the forward's definition.",
                                                 applies,
                                                 plan,
                                                 one_call,
                                                 judge};

}  // namespace normgate
