// Where every intermediate of the claimed algorithm is representable, the result is exact: tolerance zero.
//
// Preconditions: two-pass or one-pass sums (Welford's quotients are not representable) and an exact root; profile
// exact: x = μ ± a with integer μ, as many of each sign; n a power of two, so that mean = μ and variance = a² whether
// the kernel divides or multiplies by 1/n; Σ|x| and Σx² below 2^24; eps such that 1/D is a power of two; γ, β small
// integers.
#include <fmt/format.h>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/problem/data.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  const auto& claim = subject.kernel.claim;
  return subject.phase == Phase::forward_training && claim.variance != VarianceAlgorithm::welford &&
         claim.rsqrt_ulp == 0 && subject.convention.normalizing == NormalizingDivisor::n;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "exact_data");
  const std::int64_t most = effort == Effort::quick ? 1024 : 4096;
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 16); ++round)
    for (std::int64_t length = 2; length <= most; length *= 2)
      for (const std::int32_t level : {1, 3, 5, 7}) {
        const auto eps = exact_eps(subject.convention, level);
        if (!eps || (effort == Effort::quick && length > 64 && level % 4 != 3)) continue;
        Recipe recipe;
        recipe.length = length;
        recipe.profile = Profile::exact;
        recipe.level = level;
        recipe.eps = *eps;
        recipe.running = 0;
        planner.add(recipe);
      }
  return planner.take();
}

Judgement judge(const Case& c, const Subject&, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const std::int64_t n = group_size(c.problem());
  const double most = static_cast<double>(n) * (8 + c.problem().level) * (8 + c.problem().level);
  if (n < 2 || (n & (n - 1)) != 0 || most >= 0x1p24) {
    judgement.discarded = true;
    return judgement;
  }
  constexpr Role roles[] = {Role::y, Role::mean, Role::stat};
  for (const Role role : written(c.problem(), roles)) {
    const auto& truth = c.truth().out[role];
    for (std::size_t i = 0; i < truth.size(); ++i) {
      ++judgement.elements;
      const double got = static_cast<double>(outcomes[0].outputs[role][i]);
      if (got == truth[i].hi || judgement.violation) continue;
      Violation violation;
      violation.at = place(c.problem(), role, i, outcomes[0].outputs[role]);
      violation.got = both_ways(got);
      violation.want = both_ways(truth[i].hi);
      violation.error = fmt::format("off by {:.4g}; every intermediate of the claimed algorithm is representable",
                                    distance(got, truth[i]));
      judgement.violation = std::move(violation);
      judgement.worst_role = role;
    }
  }
  return judgement;
}

}  // namespace

const Property exact_data{
    "exact_data", "Where every intermediate is representable the result is exact.", applies, plan, one_call, judge};

}  // namespace normgate
