// Running statistics take in the batch as the declared convention says: which divisor, which weight momentum is, what a
// single value does; and they do so over several steps, each judged from the state that the kernel itself left.
//
// Preconditions: training, a row that has running statistics, and a kernel that keeps them. An empty batch leaves the
// state as it is, bit for bit. Multi-step: the state handed to a step is an exact input, so each step has its own
// bound.
#include <fmt/format.h>

#include "properties/corpus/corpus.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

constexpr Role state_roles[] = {Role::running_mean, Role::running_var, Role::running_weight};
constexpr std::int64_t steps = 3;

bool applies(const Subject& subject) {
  return subject.phase == Phase::forward_training && !subject.row.running.empty() &&
         supports(subject, Role::running_mean) && supports(subject, Role::running_var) &&
         (subject.convention.momentum != MomentumForm::accumulated_weight || supports(subject, Role::running_weight));
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "running_statistics");
  // Short ones first: n/(n-1) is what separates the divisors.
  std::vector<std::int64_t> lengths{4, 2, 5, 8, 17, 32, 33, 100, 260};
  const auto more = planner.lengths(4100, 4);
  lengths.insert(lengths.end(), more.begin(), more.end());
  // 1: the state becomes the batch value; 0: it stays; 0.25 and 0.9: which weight is which.
  constexpr std::array momenta{0.25F, 0.9F, 1.0F, 0.1F, 0.0F};
  // A large eps shows an eps that got into the variance.
  constexpr std::array eps_values{0.5F, 1e-5F, 1e-3F};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(2, 2, 8); ++round)
    for (const std::int64_t length : lengths) {
      Recipe recipe;
      recipe.length = length;
      recipe.kappa = i % 3 == 1 ? 20 : 1;
      recipe.scale = i % 4 == 3 ? 3 : 0;
      recipe.momentum = static_cast<double>(momenta[(i + static_cast<std::size_t>(round)) % momenta.size()]);
      recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
      recipe.step = std::array<std::int64_t, 7>{1, 2, 3, 4, 17, 257, 70000}[i % 7];
      if (i % 6 == 5) recipe.profile = Profile::parameter_rounding;
      recipe.running = 1;
      recipe.layouts = i % 5 == 4;
      planner.add(recipe);
      ++i;
    }
  planner.add_count_residues();
  // Batch 2 with positions: n is N*S, neither N nor S.
  Problem two;
  two.shape = {2, 1, 3, 16};
  two.running = two.saved = true;
  planner.add(two);
  // More channels and samples than a block, a lane count or a cap; the state as a layer begins, 0 and 1, and all 0.
  planner.add_shapes({Profile::conditioned});
  for (const std::int64_t groups : {9, 17, 33, 65, 129, 257}) {
    Recipe recipe;
    recipe.length = 6;
    recipe.groups = groups;
    recipe.running = 1;
    planner.add(recipe);
  }
  for (const float variance : {1.0F, 0.0F}) {
    Problem initial = two;
    initial.step = 1;
    initial.values[Role::running_mean] = {0, 0, 0};
    initial.values[Role::running_var] = {variance, variance, variance};
    planner.add(initial);
  }
  // Empty batches.
  for (const Shape& shape : {Shape{0, 1, 5, 9}, Shape{3, 1, 4, 0}}) {
    Problem empty;
    empty.shape = shape;
    empty.running = true;
    planner.add(empty);
  }
  if (planner.primary()) {
    // Counts beyond 16 bits.
    Recipe recipe;
    recipe.length = 65536 + 9;
    recipe.groups = 2;
    recipe.kappa = 3;
    recipe.running = 1;
    planner.add(recipe);
  }
  add_corpus(planner, subject);
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench& bench) {
  Judgement judgement;
  if (!c.problem().running) {
    judgement.discarded = true;
    return judgement;
  }
  const auto& claim = subject.kernel.claim;
  const auto roles = written(c.problem(), state_roles);
  judge_within_bounds(c, claim, demand_of(c, subject), outcomes[0].outputs, roles, judgement);
  Inputs state = outcomes[0].outputs;
  for (std::int64_t step = 1; step < steps && !judgement.violation; ++step) {
    Problem next = c.problem();
    next.key += static_cast<std::uint64_t>(step);
    next.step += step;
    for (const Role role : roles) next.values[role] = state[role];
    const Case later(next, Wanted::statistics);
    const auto outcome = bench.run_one(later.problem(), later.inputs());
    judge_within_bounds(later, claim, demand_of(later, subject), outcome.outputs, roles, judgement);
    if (judgement.violation) judgement.violation->at += fmt::format("  at step {} of {}", step + 1, steps);
    state = outcome.outputs;
  }
  return judgement;
}

}  // namespace

const Property running_statistics{"running_statistics",
                                  "Running statistics take in each batch as the declared convention says.",
                                  applies,
                                  plan,
                                  one_call,
                                  judge,
                                  Wanted::statistics};

}  // namespace normgate
