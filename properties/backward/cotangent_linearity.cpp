// Gradients are linear in the upstream gradient: dy times 2^k gives them times 2^k, and dy1 + dy2 their sums.
//
// Scaling by powers of two commutes with every rounding unless something overflows or underflows, so a kernel that
// promises scale_covariant keeps every bit; without the promise both results lie within the bounds of truths that are
// equal up to the factor. A sum has no promise: the three results lie within three bounds of truths of which one is
// the sum of the others. What gradients are added to is scaled too, and is 0 for dy2.
// Preconditions: dy1 and dy2 are multiples of 2^-12 of their largest element's power of two, so that their sum is a
// float; data of scale 0, so that 2^-18 and 2^21 leave every product with a difference from a float32 mean (0 or at
// least 2^-24) and with gamma (0 or at least 2^-20) inside [2^-110, 2^100].
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"

namespace normgate {
namespace {

constexpr int exponents[] = {-18, 21};

bool applies(const Subject& subject) { return is_backward(subject.phase) && is_new_to_backward(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "cotangent_linearity");
  constexpr std::array kappas{1.0, 0.0, 20.0};
  constexpr std::array eps_values{1e-3F, 1e-5F, 0.5F};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 6); ++round)
    for (const std::int64_t length : planner.lengths(800, 8)) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 200 ? 1 + length % 2 : 0;
      recipe.kappa = kappas[i % kappas.size()];
      recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
      recipe.layouts = i % 4 == 3;
      planner.add(recipe);
      ++i;
    }
  return planner.take();
}

// Rounded to multiples of 2^-12 of `top`, a power of two; what is beyond it (explicit values of a replayed line) too.
void coarsen(std::vector<float>& dy, int top) {
  for (float& value : dy) value = static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(value, 12 - top)), top - 12));
}

int top_of(const std::vector<float>& dy) {
  float largest = 0;
  for (const float value : dy) largest = std::max(largest, std::fabs(value));
  return largest > 0 && std::isfinite(largest) ? std::ilogb(largest) + 1 : 0;
}

enum Which : std::size_t { first, second, both, scaled_first };  // and behind it the other exponents

const Case& with(const Case& c, Which which) {
  return c.derived(which, [&c, which] {
    Inputs inputs = c.inputs();
    Problem other = c.problem();
    other.key ^= 0x5DEECE66DU;
    other.values[Role::dy].clear();
    std::vector<float> one = inputs[Role::dy];
    std::vector<float> two = make_inputs(other)[Role::dy];
    const int top = std::max(top_of(one), top_of(two));
    coarsen(one, top);
    coarsen(two, top);
    if (which == second) {
      for (const Role role : {Role::dgamma, Role::dbeta}) std::fill(inputs[role].begin(), inputs[role].end(), 0.0F);
      one = two;
    } else if (which == both) {
      for (std::size_t i = 0; i < one.size(); ++i) one[i] += two[i];
    }
    inputs[Role::dy] = std::move(one);
    return Case(c.problem(), std::move(inputs));
  });
}

const Case& scaled(const Case& c, std::size_t j) {
  return c.derived(scaled_first + j, [&c, j] {
    Inputs inputs = with(c, first).inputs();
    for (const Role role : {Role::dy, Role::dgamma, Role::dbeta})
      for (float& value : inputs[role]) value = std::ldexp(value, exponents[j]);
    return Case(c.problem(), std::move(inputs));
  });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result;
  for (const Which which : {first, second, both})
    result.push_back(call_of(c.problem(), with(c, which).inputs(), subject));
  for (std::size_t j = 0; j < std::size(exponents); ++j)
    result.push_back(call_of(c.problem(), scaled(c, j).inputs(), subject));
  return result;
}

void judge_scaled(const Case& c, const Subject& subject, const Inputs& plain, const Inputs& outputs, std::size_t j,
                  std::span<const Role> roles, Judgement& judgement) {
  if (!subject.kernel.claim.scale_covariant) {
    judge_within_bounds(c, subject.kernel.claim, demand_of(scaled(c, j), subject), outputs, roles, judgement);
    return;
  }
  Inputs expected;
  for (const Role role : roles) {
    expected[role] = plain[role];
    for (float& value : expected[role]) value = std::ldexp(value, exponents[j]);
  }
  judge_equal(c, expected, outputs, roles, nullptr, fmt::format("with dy * 2^{}", exponents[j]), judgement);
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const auto roles = written(c.problem(), gradient_roles);
  if (c.problem().profile == Profile::special) {
    judgement.discarded = true;
    return judgement;
  }
  for (std::size_t j = 0; j < std::size(exponents); ++j)
    judge_scaled(c, subject, outcomes[first].outputs, outcomes[scaled_first + j].outputs, j, roles, judgement);
  const std::array<Demand, 3> demands{demand_of(with(c, first), subject), demand_of(with(c, second), subject),
                                      demand_of(with(c, both), subject)};
  for (const Role role : roles)
    for (std::size_t i = 0; i < outcomes[first].outputs[role].size(); ++i) {
      double allowed = 0;
      for (const Demand& demand : demands)
        allowed += demand.bounds->tolerance[role][i] + demand.truth->out[role][i].bound;
      const auto value = [&](Which which) { return static_cast<double>(outcomes[which].outputs[role][i]); };
      // A NaN by definition is one three times.
      if (!demands[both].truth->out[role][i].finite() || !(allowed < infinity)) {
        ++judgement.not_judged;
        continue;
      }
      ++judgement.elements;
      const double error = std::fabs((value(both) - value(first)) - value(second));
      const double share = error == 0 ? 0 : error / allowed;
      if (share > judgement.worst_share) {
        judgement.worst_share = share;
        judgement.worst_role = role;
      }
      // The differences of floats here are rounded in double.
      const double moduli = std::fabs(value(both)) + std::fabs(value(first)) + std::fabs(value(second));
      if (error <= allowed + moduli * 0x1p-50 || judgement.violation) continue;
      Violation violation;
      violation.at = place(c.problem(), role, i, outcomes[both].outputs[role]);
      violation.got = fmt::format("{}   of dy1 + dy2", both_ways(value(both)));
      violation.want = fmt::format("{} + {}", shortest(value(first)), shortest(value(second)));
      violation.error = fmt::format("differs by {:.4g}; the sum of the three bounds is {:.4g}", error, allowed);
      judgement.violation = std::move(violation);
    }
  return judgement;
}

}  // namespace

const Property cotangent_linearity{"cotangent_linearity",
                                   "Gradients are linear in dy: powers of two pass through, sums add up.",
                                   applies,
                                   plan,
                                   calls,
                                   judge};

}  // namespace normgate
