// The saved mean and statistic lie within their bounds, as the declared convention defines them: the reciprocal
// standard deviation 1/D (with its eps), or the normalizing variance (without). Those of phase `statistics`, which are
// to be merged, are the mean and the variance over n. An inference that is handed saved statistics takes them for what
// the convention says that they are: y lies within its bound. Precondition: the kernel can save them, or is handed
// them.
#include "properties/corpus/corpus.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  if (subject.phase == Phase::statistics) return is_primary(subject);
  if (!is_forward(subject.phase)) return false;
  // An inference that insists on running statistics is never handed others.
  const auto& roles = subject.kernel.roles[static_cast<std::size_t>(subject.phase)];
  const bool insists = ((roles.required >> index_of(Role::running_var)) & 1U) != 0;
  return supports(subject, Role::stat) && (!subject.row.centred || supports(subject, Role::mean)) &&
         (is_training(subject.phase) || !insists);
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "saved_statistics");
  constexpr std::array profiles{Profile::conditioned, Profile::outlier_channels, Profile::needle,
                                Profile::parameter_rounding};
  constexpr std::array kappas{1.0, 30.0, 0.0, 1e3, 4.0, 1e4};
  // A variance far from 1, where a variance and its root's reciprocal cannot be mistaken for each other.
  constexpr std::array scales{2, -3, 0, -20, 7, 20, -40};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round)
    for (const std::int64_t length : planner.lengths(effort == Effort::quick ? 4100 : 20000, 2)) {
      Recipe recipe;
      recipe.length = length;
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = kappas[(i + i / profiles.size()) % kappas.size()];
      recipe.scale = scales[i % scales.size()];
      recipe.saved = 1;
      recipe.given = Given::saved;
      recipe.layouts = i % 4 == 3;
      planner.add(recipe);
      ++i;
    }
  planner.add_shapes({Profile::conditioned});
  planner.add_counts();
  if (planner.primary()) {
    // Counts beyond 16 bits.
    Recipe recipe;
    recipe.length = 65536 + 9;
    recipe.groups = 2;
    recipe.kappa = 3;
    recipe.saved = 1;
    planner.add(recipe);
  }
  add_corpus(planner, subject);
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  if (subject.phase == Phase::forward_inference) {
    if (c.problem().given != Given::saved) {
      judgement.discarded = true;
      return judgement;
    }
    // y is no statistic, which is all that the case itself computes.
    const Case& whole = c.derived(0, [&c] { return Case(c.problem()); });
    constexpr Role normalized[] = {Role::y};
    judge_within_bounds(whole, subject.kernel.claim, demand_of(whole, subject), outcomes[0].outputs, normalized,
                        judgement);
    return judgement;
  }
  constexpr Role roles[] = {Role::mean, Role::stat};
  judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs, written(c.problem(), roles),
                      judgement);
  return judgement;
}

}  // namespace

const Property saved_statistics{
    "saved_statistics",
    "The saved mean and statistic are what the declared convention says, and are taken for that where they are given.",
    applies,
    plan,
    one_call,
    judge,
    Wanted::statistics};

}  // namespace normgate
