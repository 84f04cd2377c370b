// Scaling by a power of two: with x 2^k, and eps 4^k inside the root or as a floor, 2^k outside, y stays as it is.
//
// Scaling by powers of two commutes with every rounding unless something overflows or underflows, so a kernel that is
// nothing but + - * / and sqrt keeps every bit of y, of the mean (times 2^k) and of the reciprocal deviation (times
// 2^-k): that is the promise scale_covariant. Without it both results lie within their bounds of the same truth.
// Preconditions: training; k = -30 and 40 with data of about 1, whose differences from a float32 mean are 0 or at least
// 2^-24, so that squares stay in [2^-108, 2^100] and eps stays normal.
#include <fmt/format.h>

#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

constexpr int exponents[] = {-30, 40};

bool applies(const Subject& subject) { return subject.phase == Phase::forward_training; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "scaling");
  std::size_t i = 0;
  for (const std::int64_t length : planner.lengths(2100, 4)) {
    Recipe recipe;
    recipe.length = length;
    recipe.kappa = i % 2 == 0 ? 1 : 50;
    constexpr std::array eps_values{1e-5F, 1e-3F, 0.5F};
    recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
    recipe.running = 0;
    planner.add(recipe);
    ++i;
  }
  return planner.take();
}

Problem scaled(Problem problem, int k) {
  problem.eps = std::ldexp(problem.eps, problem.convention.eps == EpsPlacement::outside ? k : 2 * k);
  return problem;
}

Inputs scaled(Inputs inputs, int k) {
  for (float& x : inputs[Role::x]) x = std::ldexp(x, k);
  return inputs;
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  for (const int k : exponents) result.push_back(call_of(scaled(c.problem(), k), scaled(c.inputs(), k), subject));
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const auto& claim = subject.kernel.claim;
  constexpr Role roles[] = {Role::y};
  for (std::size_t j = 0; j < std::size(exponents); ++j) {
    const auto& outputs = outcomes[j + 1].outputs;
    if (claim.scale_covariant) {
      judge_equal(c, outcomes[0].outputs, outputs, roles, nullptr, fmt::format("with x * 2^{}", exponents[j]),
                  judgement);
      continue;
    }
    // The truth of y is the same; the bound is that of the scaled problem.
    const Case other(scaled(c.problem(), exponents[j]));
    const Inputs inputs = scaled(c.inputs(), exponents[j]);
    const Truth truth = forward_truth(other.problem(), inputs);
    const Demand demand{&truth, forward_bounds(other.problem(), inputs, truth, claim)};
    judge_within_bounds(c, claim, demand, outputs, roles, judgement);
  }
  return judgement;
}

}  // namespace

const Property scaling{"scaling", "Scaling x by 2^k and eps with it leaves y as it is.", applies, plan, calls, judge};

}  // namespace normgate
