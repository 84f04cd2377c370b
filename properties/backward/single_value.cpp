// Groups without a deviation: single values and constant groups, and rows that are not centred beside them. dx, dgamma
// and dbeta lie within their bounds: a centred group of one value has dx = 0 and dgamma = 0, or NaN where the
// convention says that the variance of one value under n-1 is NaN; the x̂ of a constant group is 0, and its dx is
// r (g - mean g).
//
// Where every intermediate of any of the forms is representable, dx of a single centred value is exactly 0: integers g
// and x, and a 1/D that is a power of two (eps = 4^k, or 2^k outside the root). Then mean g = g and x - mean = 0 to the
// bit, products with 1/D are exact, and so are their differences, contracted or not. Precondition of that: profile
// exact, a correctly rounded root.
#include <fmt/format.h>

#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/problem/data.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_backward(subject.phase) && is_new_to_backward(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "single_value");
  constexpr std::array eps_values{1e-5F, 1e-12F, 1.0F, 1e-3F, 0.1F, 1e-8F, 16.0F, 0x1p-60F};
  constexpr std::array groups{1, 2, 3, 8, 17, 33, 100};
  std::size_t i = 0;
  const auto add = [&](std::int64_t length, Profile profile, double eps) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = length > 64 ? 2 : groups[i % groups.size()];
    recipe.profile = profile;
    recipe.kappa = i % 3 == 0 ? 100 : i % 3 == 1 ? 1 : 0;
    recipe.eps = eps;
    recipe.layouts = i % 4 == 3;
    planner.add(recipe);
    ++i;
  };
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 8); ++round)
    for (const float eps : eps_values)
      for (const Profile profile : {Profile::conditioned, Profile::constant}) {
        if (!planner.primary() && i % 3 != 0) {
          ++i;
          continue;
        }
        add(1, profile, static_cast<double>(eps));
      }
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 8); ++round)
    for (const double eps : {1.0, 0.0625, 4.0, 16.0})
      if (planner.primary() || eps == 1) add(1, Profile::exact, eps);
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 8); ++round)
    for (const std::int64_t length : {2, 3, 4, 7, 8, 9, 16, 17, 33, 64, 100, 257, 768, 1000})
      for (const Profile profile : {Profile::constant, Profile::near_constant}) {
        if (!planner.primary() && i % 5 != 0) {
          ++i;
          continue;
        }
        add(length, profile, static_cast<double>(eps_values[i % eps_values.size()]));
      }
  return planner.take();
}

bool gives_zero(const Case& c, const Subject& subject) {
  const Problem& problem = c.problem();
  if (problem.phase != Phase::backward_training || !subject.row.centred || group_size(problem) != 1) return false;
  if (problem.profile != Profile::exact || problem.handed != Handed::nearest || subject.kernel.claim.rsqrt_ulp != 0)
    return false;
  const auto& convention = problem.convention;
  if (convention.normalizing == NormalizingDivisor::n_minus_1 && convention.single == SingleCount::nan) return false;
  if (problem.cotangent == Cotangent::pooled || problem.cotangent == Cotangent::mixed) return false;  // not integers
  if (problem.values != decltype(problem.values){}) return false;
  int exponent = 0;
  const bool power_of_two = std::frexp(problem.eps, &exponent) == 0.5;
  // 2^(exponent-1) has an even exponent.
  return power_of_two && (convention.eps == EpsPlacement::outside || (exponent - 1) % 2 == 0);
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs,
                      written(c.problem(), gradient_roles), judgement);
  if (!gives_zero(c, subject) || judgement.violation) return judgement;
  const auto& dx = outcomes[0].outputs[Role::dx];
  for (std::size_t i = 0; i < dx.size(); ++i) {
    ++judgement.elements;
    if (dx[i] == 0.0F) continue;
    Violation violation;
    violation.at = place(c.problem(), Role::dx, i, dx);
    violation.got = both_ways(static_cast<double>(dx[i]));
    violation.want = both_ways(0);
    violation.error = "a single centred value; every intermediate of the claimed algorithm is representable";
    judgement.violation = std::move(violation);
    break;
  }
  return judgement;
}

}  // namespace

const Property single_value{
    "single_value", "Single values and constant groups have the gradients that the convention says.",
    applies,        plan,
    one_call,       judge};

}  // namespace normgate
