// eps does what the convention says: on constant and nearly constant groups over many eps, and where the variance is of
// its order. y and the saved statistic lie within their bounds; where the kernel promises constant_exact, a constant
// group gives exactly β (x - mean is then exactly 0, whatever follows).
//
// Preconditions: none for the bounds; constant_exact concerns centred rows only. eps = 0 with variance 0 is excluded.
#include <fmt/format.h>

#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_forward(subject.phase); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "epsilon");
  const std::vector<std::int64_t> lengths{1, 2, 3, 4, 7, 9, 16, 33, 64, 100, 256, 257, 768, 1000, 2048, 5003};
  constexpr std::array eps_values{1e-5F, 1e-12F, 1.0F, 1e-3F, 1e-6F, 0.1F, 1e-8F, 16.0F, 0x1p-60F, 0x1p-126F};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 8); ++round)
    for (const float eps : eps_values)
      for (const Profile profile : {Profile::constant, Profile::near_constant}) {
        if (!planner.primary() && i % 2 == 1) {
          ++i;
          continue;
        }
        Recipe recipe;
        recipe.length = lengths[(i + i / lengths.size()) % lengths.size()];
        recipe.profile = profile;
        recipe.kappa = i % 5 == 4 && profile == Profile::constant ? 0 : i % 3 == 0 ? 1000 : 1;
        recipe.eps = static_cast<double>(eps);
        planner.add(recipe);
        ++i;
      }
  // A variance of eps' own order, a tenth and ten times of it: sqrt(v+eps), sqrt(v)+eps, sqrt(max(v,eps)), sqrt(v) and
  // sqrt(v+1e-5) all differ. 2^-10 squared is 9.5e-7: just below a clamp at 1e-6. A millionth and a million times of
  // it, over most of the range of eps, from 2^-126 to 2^126.
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 8); ++round)
    for (const std::int32_t scale : {0, -3, 5, -10, -15, -25, -35, -45, -60, 12, 30, 50})
      for (const double ratio : {1.0, 0.0625, 16.0, 0x1p-20, 0x1p20}) {
        if (!planner.primary() && ratio != 1.0) continue;
        Recipe recipe;
        recipe.length = lengths[i % lengths.size()];
        recipe.scale = scale;
        recipe.kappa = i % 2 == 0 ? 0.5 : 3;
        recipe.eps = std::ldexp(ratio, 2 * scale);
        planner.add(recipe);
        ++i;
      }
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  const auto& claim = subject.kernel.claim;
  const Demand demand = demand_of(c, subject);
  constexpr Role roles[] = {Role::y, Role::stat};
  const auto& outputs = outcomes[0].outputs;
  judge_within_bounds(c, claim, demand, outputs, written(problem, roles), judgement);
  const bool exact = claim.constant_exact && subject.row.centred && problem.profile == Profile::constant &&
                     problem.phase == Phase::forward_training && problem.values == decltype(problem.values){};
  if (!exact || judgement.violation) return judgement;
  // The truth of a constant group is β itself (NaN where a single value under n-1 is 0/0).
  const auto& y = outputs[Role::y];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Exact& truth = c.truth().out[Role::y][i];
    if (!truth.finite() || static_cast<double>(y[i]) == truth.hi) continue;
    Violation violation;
    violation.at = place(problem, Role::y, i, y);
    violation.got = both_ways(static_cast<double>(y[i]));
    violation.want = both_ways(truth.hi);
    violation.error =
        fmt::format("off by {:.4g}; constant_exact promises exactly beta", distance(static_cast<double>(y[i]), truth));
    judgement.violation = std::move(violation);
    break;
  }
  return judgement;
}

}  // namespace

const Property epsilon{
    "epsilon", "Constant, nearly constant and eps-sized groups come out as the placement of eps says.",
    applies,   plan,
    one_call,  judge};

}  // namespace normgate
