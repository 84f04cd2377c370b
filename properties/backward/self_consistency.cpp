// dx, dgamma and dbeta are the derivative of the kernel's own forward, by differences of it: a pair of forward and
// backward that disagree about the mathematics is rejected without a look at the closed form. own_differences.cpp
// proves the tolerance. Preconditions: a kernel that has the forward of the phase; finite inputs; statistics handed as
// its own forward saves them.
//
// It sees missing terms, wrong factors from about 1e-3 on, lost and swapped elements; it does not see ulps, which the
// comparison with the certified gradient does.
#include "properties/backward/own_differences.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return has_own_forward(subject) && is_new_to_backward(subject); }

// Small problems of rows: which elements depend on which is not known, so that each is moved by itself.
std::vector<Problem> plan_of_custom(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "self_consistency");
  constexpr std::array cotangents{Cotangent::random, Cotangent::unit, Cotangent::random};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round)
    for (const std::int64_t length : {2, 3, 4, 7, 8, 12, 16, 17, 31, 64, 130}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 17 ? 1 : 2;
      recipe.kappa = i % 3 == 2 ? 3 : 0.5;
      recipe.eps = i % 2 == 0 ? 0x1p-7 : 0x1p-10;
      recipe.cotangent = cotangents[i % cotangents.size()];
      recipe.saved = 1;
      recipe.handed = Handed::nearest;
      planner.add(recipe);
      ++i;
    }
  return planner.take();
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  if (!subject.kernel.variant) return plan_of_custom(subject, effort, seed);
  Planner planner(subject, effort, seed, "self_consistency");
  constexpr std::array cotangents{Cotangent::random, Cotangent::mixed,  Cotangent::random,     Cotangent::unit,
                                  Cotangent::mixed,  Cotangent::pooled, Cotangent::normalized, Cotangent::ones};
  constexpr std::array kappas{1.0, 0.0, 3.0, 10.0, 0.5};
  constexpr std::array eps_values{1e-5F, 1e-3F, 1.0F, 0.1F, 1e-8F};
  constexpr std::array profiles{Profile::conditioned, Profile::conditioned, Profile::exact_sum, Profile::conditioned,
                                Profile::drift};
  // As a floor eps is far from the variance, where the forward has a kink. And 1/sqrt(eps) that is handed does not tell
  // whether the variance is below eps or at it: there nothing is handed, or eps is below.
  constexpr std::array floors{1e-5F, 1e-3F, 256.0F, 64.0F, 1e-8F};
  const bool floor = subject.convention.eps == EpsPlacement::floor && is_training(subject.phase);
  const auto required = subject.kernel.roles[static_cast<std::size_t>(subject.phase)].required;
  const bool handed = ((required >> index_of(Role::stat)) & 1U) != 0;
  std::size_t i = 0;
  const auto add = [&](std::int64_t length, std::int64_t groups) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.profile = profiles[i % profiles.size()];
    recipe.kappa = kappas[(i / 2) % kappas.size()];
    recipe.level = 3;
    recipe.eps = static_cast<double>((floor ? floors : eps_values)[(i / 3) % eps_values.size()]);
    if (floor && (length == 1 || recipe.eps > 1)) recipe.saved = 0;
    if (floor && handed && recipe.eps > 1) recipe.eps = 0x1p-10;
    recipe.cotangent = cotangents[i % cotangents.size()];
    recipe.handed = Handed::nearest;
    recipe.layouts = i % 4 == 3;
    if (length > 1024) recipe.threads = 1;
    if (!(floor && handed && length == 1)) planner.add(recipe);
    ++i;
  };
  std::vector<std::int64_t> lengths{1, 2, 3, 5, 8, 17, 64, 129};
  if (planner.primary())
    lengths = {1,  2,  3,  4,  5,  6,   7,   8,   9,   12,  15,   16,   17,   24,
               31, 33, 48, 64, 65, 100, 130, 256, 515, 768, 1024, 2050, 4096, 9001};
  if (effort != Effort::quick)
    lengths.insert(lengths.end(), {10, 11, 13, 23, 32, 37, 63, 128, 200, 384, 1000, 1536, 3072});
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 8); ++round)
    for (const std::int64_t length : lengths) add(length, length > 256 ? 1 : 0);
  // Many groups: rows that are not reduced, launches behind the first.
  if (planner.primary()) {
    using Count = std::pair<std::int64_t, std::int64_t>;
    for (const auto& [length, groups] : {Count{64, 9}, Count{20, 49}, Count{5, 300}, Count{12, 130}, Count{6, 1030}})
      add(length, groups);
    if (is_training(subject.phase)) add(3, 4200);
    Problem positions;  // many samples of one position
    positions.shape = {900, 1, 3, 1};
    positions.saved = true;
    positions.eps = 0x1p-10;
    planner.add(positions);
  }
  // Groups of zeros, whose gradients are 1/sqrt(eps) large.
  for (const std::int64_t length : {2, 7, 24}) {
    Recipe recipe;
    recipe.length = length;
    recipe.profile = Profile::constant;
    recipe.kappa = 0;
    recipe.eps = length == 7 ? 0x1p-10 : 0x1p-20;
    if (floor) recipe.saved = 0;
    recipe.cotangent = Cotangent::random;
    recipe.handed = Handed::nearest;
    if (!(floor && handed)) planner.add(recipe);
  }
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome>, Bench& bench) {
  return judge_own_differences(c, subject, bench);
}

}  // namespace

// `calls` is the backward as it is planned: what diagnosis looks at.
const Property self_consistency{.name = "self_consistency",
                                .sentence = "Gradients are the derivative of the kernel's own forward.",
                                .applies = applies,
                                .plan = plan,
                                .calls = one_call,
                                .judge = judge,
                                .judged_at_least = 0.9,
                                .needs_reference = false};

}  // namespace normgate
