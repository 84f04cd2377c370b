// In training, y does not depend on momentum, on the step, or on the old running statistics: its definition does not
// mention them. Proof: both results are judged against the one truth, each within its bound.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  return is_primary(subject) && subject.phase == Phase::forward_training && !subject.row.running.empty() &&
         supports(subject, Role::running_mean) && supports(subject, Role::running_var);
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "momentum_independence");
  std::size_t i = 0;
  for (const std::int64_t length : planner.lengths(2100, 5)) {
    Recipe recipe;
    recipe.length = length;
    recipe.kappa = i % 2 == 0 ? 1 : 10;
    recipe.running = 1;
    recipe.momentum = static_cast<double>(i % 2 == 0 ? 0.9F : 0.1F);
    planner.add(recipe);
    ++i;
  }
  return planner.take();
}

// The same data with another momentum, step and old state.
std::pair<Problem, Inputs> changed(const Case& c) {
  Problem problem = c.problem();
  problem.momentum = problem.momentum == 0.5 ? 0.25 : 0.5;
  problem.step += 2;
  Inputs inputs = c.inputs();
  for (const Role role : {Role::running_mean, Role::running_var})
    for (float& value : inputs[role]) value = 3.0F * value + 7.0F;
  for (float& value : inputs[Role::running_weight]) value += 1.0F;
  return {problem, inputs};
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  const auto [problem, inputs] = changed(c);
  return {call_of(c.problem(), c.inputs(), subject), call_of(problem, inputs, subject)};
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  if (!c.problem().running) {
    judgement.discarded = true;
    return judgement;
  }
  constexpr Role roles[] = {Role::y, Role::mean, Role::stat};
  const Demand demand = demand_of(c, subject);
  for (const auto& outcome : outcomes)
    judge_within_bounds(c, subject.kernel.claim, demand, outcome.outputs, written(c.problem(), roles), judgement);
  return judgement;
}

}  // namespace

const Property momentum_independence{"momentum_independence",
                                     "The training output does not depend on momentum, step or old running statistics.",
                                     applies,
                                     plan,
                                     calls,
                                     judge};

}  // namespace normgate
