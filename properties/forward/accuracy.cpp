// Every element of y lies within the bound that follows from the claim and this very input (reference/bounds: the
// derivation stands there). Preconditions: none on the data; elements whose bound is infinite are counted, not judged.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject&) { return true; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "accuracy");
  // Profiles and dials go round with the lengths, so that each profile meets many lengths and each length several
  // profiles; |mean|/sigma and scale have periods of their own.
  constexpr std::array profiles{Profile::conditioned,      Profile::needle,      Profile::conditioned,
                                Profile::outlier_channels, Profile::conditioned, Profile::parameter_rounding,
                                Profile::near_constant};
  constexpr std::array kappas{1.0, 100.0, 3.0, 1e4, 10.0, 1e3, 0.0, 30.0, 3e5};
  constexpr std::array scales{0, 0, -20, 0, 10, 0, -45, 0, 40, 0, 3};
  std::size_t i = 0;
  const auto rounds = planner.by_effort(2, 3, 12);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (const std::int64_t length : planner.lengths(effort == Effort::quick ? 4096 : 70000)) {
      Recipe recipe;
      recipe.length = length;
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = kappas[(i + i / profiles.size()) % kappas.size()];
      recipe.scale = scales[(i + i / kappas.size()) % scales.size()];
      recipe.layouts = i % 3 == 2;
      planner.add(recipe);
      ++i;
    }
  // Many short rows, and counts around the number of cores and blocks of rows; a size beyond every small block limit.
  for (const auto& [length, groups] :
       {std::pair<std::int64_t, std::int64_t>{3, 49}, {8, 65}, {1, 257}, {5, 128}, {20, 33}}) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.kappa = 3;
    planner.add(recipe);
  }
  if (planner.primary())
    for (const std::int64_t length : {5000, 16384 + 3}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = 1;
      recipe.kappa = 20;
      planner.add(recipe);
    }
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const auto bounds = forward_bounds(c.problem(), c.inputs(), c.truth(), subject.kernel.claim);
  constexpr Role roles[] = {Role::y};
  judge_within_bounds(c, subject.kernel.claim, bounds, outcomes[0].outputs, roles, judgement);
  return judgement;
}

}  // namespace

const Property accuracy{"accuracy", "Every element of y lies within the bound that follows from claim and input.",
                        applies,    plan,
                        one_call,   judge};

}  // namespace normgate
