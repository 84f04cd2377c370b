// Where every intermediate of the claimed algorithm is representable, gradients are exact: tolerance zero.
//
// Profile exact: x = c ± level with integer c, as many of each sign, so that for n a power of two the mean is c and the
// variance level² whether the kernel divides or multiplies by 1/n; eps such that 1/D is a power of two; γ, β and dy
// integers or, in profile-exact x̂ (cotangent normalized), ±level/D. Then everything that dx is made of in any of the
// forms is an integer times a power of two: g, mean g, x̂·mean(g·x̂) and what the folded form multiplies apart. The check
// measures the smallest such power and the moduli of this very problem: if the moduli's sum is below 2^24 times it, all
// of these and their sums in any order are representable, and so is the result. The sums over a group or a channel
// likewise. The result is computed here in double, where the same holds a fortiori.
//
// Preconditions: a correctly rounded root and no Welford where statistics are taken from x; divisor n; outside the root
// √v = 1, since the term of x̂ is over √v there. It finds a divisor n-1 in place of n at any length, to 2^20. Other even
// n are judged where the kernel promises to divide by n and all quotients are exact: mean and variance are, as said;
// the mean of g is measured too, and Σgd has to be 0.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/data.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  const auto& claim = subject.kernel.claim;
  return is_backward(subject.phase) && is_new_to_backward(subject) && claim.variance != VarianceAlgorithm::welford &&
         claim.rsqrt_ulp == 0 && subject.convention.normalizing == NormalizingDivisor::n;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "exact_gradients");
  const auto add = [&](std::int64_t length, std::int32_t level, Cotangent cotangent, int gamma) {
    const auto eps = exact_eps(subject.convention, level);
    if (!eps || (subject.convention.eps == EpsPlacement::outside && level > 1)) return;
    Recipe recipe;
    recipe.length = length;
    recipe.groups = length > 256 ? 1 : 0;
    recipe.profile = Profile::exact;
    recipe.level = level;
    recipe.eps = *eps;
    recipe.gamma = gamma;
    recipe.beta = gamma;
    recipe.handed = Handed::nearest;
    recipe.cotangent = cotangent;
    recipe.threads = length > 4096 ? 1 : 0;
    planner.add(recipe);
  };
  std::int64_t i = 0;
  const std::int64_t most = planner.primary() ? 1024 : 64;
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 16); ++round)
    for (std::int64_t length = 2; length <= most; length *= 2)
      for (const std::int32_t level : {1, 3}) {
        if (!planner.primary() && i % 3 != 0 && level == 3) continue;
        add(length, level, Cotangent::random, i % 3 == 0 ? 0 : -1);
        if (round == 0) add(length, level, Cotangent::normalized, i % 2 == 0 ? 0 : -1);
        if (round == 0) add(length, level, i % 2 == 0 ? Cotangent::unit : Cotangent::ones, -1);
        ++i;
      }
  // In inference nothing is divided by n.
  if (!is_training(subject.phase)) return planner.take();
  // Without gamma the long groups stay exact: a mean of 1, and x̂ times its own mean square.
  add(16384, 1, Cotangent::normalized, 0);
  if (!planner.primary()) return planner.take();
  for (const Cotangent cotangent : {Cotangent::ones, Cotangent::normalized, Cotangent::random}) {
    add(2048, 1, cotangent, 0);
    add(16384, 1, cotangent, 0);
  }
  // n times the float32 nearest to 1/n is not 1: a mean of 1 by it is off by an ulp.
  for (const std::int64_t length : {82, 94, 110}) add(length, 1, Cotangent::ones, 0);
  add(1 << 17, 1, Cotangent::ones, 0);
  add(1 << 17, 1, Cotangent::normalized, 0);
  if (effort == Effort::quick) return planner.take();
  add(1 << 20, 1, Cotangent::ones, 0);
  add(1 << 20, 1, Cotangent::normalized, 0);
  return planner.take();
}

// The exponent of the lowest bit that is set; large for 0.
int lowest_bit(double value) {
  if (value == 0) return 1 << 20;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const auto bits = static_cast<std::uint64_t>(std::ldexp(std::fabs(fraction), 53));
  return exponent - 53 + std::countr_zero(bits);
}

// Numbers that are added in some order: exact in all of them if their moduli stay below 2^24 of their lowest bit.
class Sum24 {
 public:
  void add(double value) {
    low_ = std::min(low_, lowest_bit(value));
    moduli_ += std::fabs(value);
    largest_ = std::max(largest_, std::fabs(value));
  }
  // Each of them by itself.
  [[nodiscard]] bool largest_exact() const { return largest_ == 0 || largest_ < std::ldexp(1.0, 24 + low_); }
  [[nodiscard]] int low() const { return low_; }
  [[nodiscard]] bool exact() const { return moduli_ == 0 || moduli_ < std::ldexp(1.0, 24 + low_); }

 private:
  int low_ = 1 << 20;
  double moduli_ = 0;
  double largest_ = 0;
};

struct Expected {
  PerRole<std::vector<double>> out;
  PerRole<std::vector<bool>> judged;
};

// The statistics of a group: of exact data in training, as given in inference.
struct Statistics {
  double mean = 0;
  double r = 0;
};

std::optional<Statistics> statistics_of(const Case& c, const Groups& groups, std::int64_t q, std::int64_t first) {
  const Problem& problem = c.problem();
  const VariantRow& row = row_of(problem.variant);
  const Inputs& inputs = c.inputs();
  Statistics result;
  double variance = 0;
  const auto value = [&](Role role, std::int64_t i) {
    return inputs[role].empty() ? 0.0 : static_cast<double>(inputs[role][static_cast<std::size_t>(i)]);
  };
  if (is_training(problem.phase)) {
    double sum = 0, square = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) { sum += value(Role::x, i); });
    const auto n = static_cast<double>(groups.size());
    if (row.centred) result.mean = sum / n;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const double d = value(Role::x, i) - result.mean;
      square += d * d;
    });
    variance = square / n;
    if (variance != static_cast<double>(problem.level) * problem.level) return std::nullopt;
  } else if (problem.given == Given::running) {
    const std::int64_t channel = dense_index(problem.shape, row.running, groups.origin(q));
    const double weight =
        problem.convention.momentum == MomentumForm::accumulated_weight ? value(Role::running_weight, 0) : 1;
    result.mean = value(Role::running_mean, channel) / weight;
    variance = value(Role::running_var, channel) / weight;
  } else {
    result.mean = value(Role::mean, first);
    variance = value(Role::stat, first);
  }
  const bool reciprocal = problem.given == Given::saved && problem.convention.saved == SavedStatistic::rstd;
  switch (problem.convention.eps) {
    case EpsPlacement::inside:
      result.r = 1 / std::sqrt(variance + problem.eps);
      break;
    case EpsPlacement::outside:
      result.r = 1 / (std::sqrt(variance) + problem.eps);
      break;
    case EpsPlacement::floor:
      result.r = 1 / std::sqrt(std::max(variance, problem.eps));
      break;
  }
  if (reciprocal) result.r = variance;
  int exponent = 0;
  if (std::frexp(result.r, &exponent) != 0.5) return std::nullopt;  // not a power of two
  return result;
}

Expected expected_of(const Case& c, const Claim& claim) {
  const Problem& problem = c.problem();
  const VariantRow& row = row_of(problem.variant);
  const Inputs& inputs = c.inputs();
  const Groups groups(problem.shape, row);
  const bool training = is_training(problem.phase);
  const bool folded = claim.form == AffineForm::folded;
  const auto n = static_cast<double>(groups.size());
  const double plus = problem.convention.gamma == GammaOffset::plus_one ? 1 : 0;
  const auto channels = static_cast<std::size_t>(element_count(restricted(problem.shape, row.affine)));
  Expected expected;
  expected.out[Role::dx].resize(static_cast<std::size_t>(element_count(problem.shape)));
  expected.judged[Role::dx].resize(expected.out[Role::dx].size());
  std::vector<Sum24> gamma_terms(channels), beta_terms(channels);
  std::vector<double> gamma_sum(channels), beta_sum(channels);
  bool channels_exact = true;
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const auto statistics = statistics_of(c, groups, q, q);
    const double mean = statistics ? statistics->mean : 0;
    const double r = statistics ? statistics->r : 0;
    channels_exact = channels_exact && statistics.has_value();
    Sum24 of_g, of_gd, of_gx, of_x, of_square;
    double sum_g = 0, sum_gd = 0, largest_x = 0;
    const auto each = [&](auto visit) {
      groups.for_each(q, [&](std::int64_t i, const Shape& at) {
        const auto index = static_cast<std::size_t>(i);
        const auto channel = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
        const double weight = problem.gamma ? static_cast<double>(inputs[Role::gamma][channel]) + plus : 1;
        const double x = static_cast<double>(inputs[Role::x][index]);
        visit(index, channel, static_cast<double>(inputs[Role::dy][index]), weight, x, x - mean);
      });
    };
    each([&](std::size_t, std::size_t channel, double dy, double weight, double x, double d) {
      of_g.add(dy * weight);
      of_gd.add(dy * weight * d);
      if (folded) of_gx.add(dy * weight * x), of_gx.add(dy * weight * mean);
      of_x.add(x);
      of_square.add(claim.variance == VarianceAlgorithm::one_pass ? x * x : d * d);
      sum_g += dy * weight;
      sum_gd += dy * weight * d;
      largest_x = std::max({largest_x, std::fabs(x), std::fabs(mean)});
      if (folded) gamma_terms[channel].add(dy * x * r), gamma_terms[channel].add(dy * mean * r);
      gamma_terms[channel].add(dy * (d * r));
      gamma_sum[channel] += dy * (d * r);
      beta_terms[channel].add(dy);
      beta_sum[channel] += dy;
    });
    // What dx is a sum of, in units of r: g, mean g, x̂·mean(g·x̂); of the folded form x·b and m·b as well.
    const double mean_g = training && row.centred ? sum_g / n : 0;
    const bool varies = problem.convention.eps != EpsPlacement::floor ||
                        static_cast<double>(problem.level) * problem.level > problem.eps;
    // Over r² by the derivative of 1/D, over √v = 1 outside the root.
    const double q_over_r = problem.convention.eps == EpsPlacement::outside ? r : r * r;
    const double factor = training && varies ? q_over_r * sum_gd / n : 0;
    // By another n than a power of two only the mean of g may be divided: d/n times Σgd is not a mean, and not exact.
    const bool power = (groups.size() & (groups.size() - 1)) == 0;
    const bool quotients = power || (factor == 0 && std::fma(mean_g, n, -(training && row.centred ? sum_g : 0)) == 0);
    int low = std::min(of_g.low(), lowest_bit(mean_g));
    double largest = 0;
    each([&](std::size_t, std::size_t, double dy, double weight, double x, double d) {
      low = std::min({low, lowest_bit(factor * d), lowest_bit(factor * x), lowest_bit(factor * mean)});
      largest = std::max(largest, std::fabs(dy * weight) + std::fabs(mean_g) + std::fabs(factor) * 2 * largest_x);
    });
    const bool sums = of_g.exact() && of_gd.exact() && of_gx.exact() && of_x.exact() && of_square.exact();
    const bool judged = statistics && quotients && (sums || !training) && of_g.largest_exact() &&
                        (largest == 0 || largest < std::ldexp(1.0, 24 + low));
    each([&](std::size_t index, std::size_t, double dy, double weight, double, double d) {
      expected.out[Role::dx][index] = r * ((dy * weight - mean_g) - d * factor);
      expected.judged[Role::dx][index] = judged;
    });
  }
  const auto settle = [&](Role role, std::vector<Sum24>& terms, std::vector<double>& sums) {
    if (!use_of(problem, role).write) return;
    for (std::size_t channel = 0; channel < channels; ++channel) {
      if (!inputs[role].empty()) {
        terms[channel].add(static_cast<double>(inputs[role][channel]));
        sums[channel] += static_cast<double>(inputs[role][channel]);
      }
      expected.judged[role].push_back(terms[channel].exact() && (role == Role::dbeta || channels_exact));
    }
    expected.out[role] = sums;
  };
  settle(Role::dgamma, gamma_terms, gamma_sum);
  settle(Role::dbeta, beta_terms, beta_sum);
  return expected;
}

// The problem with the x that its y was made from.
const Case& with_x(const Case& c) {
  if (!c.problem().from_output) return c;
  return c.derived(0, [&c] {
    Problem problem = c.problem();
    problem.from_output = false;
    problem.values = {};
    return Case(problem);
  });
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  const std::int64_t n = group_size(problem);
  // From y, x̂ is a quotient by γ, which need not be exact where a kernel multiplies by the reciprocal.
  const bool quotients = problem.from_output && problem.gamma;
  const bool root_of_one = problem.convention.eps != EpsPlacement::outside || problem.level == 1;
  const bool drawn = problem.values == decltype(problem.values){};
  const bool divides = (n & (n - 1)) == 0 || (n % 2 == 0 && subject.kernel.claim.divides_by_n);
  if (n < 2 || !divides || quotients || problem.profile != Profile::exact || !drawn ||
      problem.handed != Handed::nearest || (is_training(problem.phase) && !root_of_one)) {
    judgement.discarded = true;
    return judgement;
  }
  const Expected expected = expected_of(with_x(c), subject.kernel.claim);
  for (const Role role : written(problem, gradient_roles)) {
    const auto& outputs = outcomes[0].outputs[role];
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!expected.judged[role][i]) {
        ++judgement.not_judged;
        continue;
      }
      ++judgement.elements;
      const double want = expected.out[role][i];
      const auto got = static_cast<double>(outputs[i]);
      if (got == want || judgement.violation) continue;
      Violation violation;
      violation.at = place(problem, role, i, outputs);
      violation.got = both_ways(got);
      violation.want = both_ways(want);
      violation.error = fmt::format("off by {:.4g}; every intermediate of the claimed algorithm is representable",
                                    std::fabs(got - want));
      judgement.violation = std::move(violation);
      judgement.worst_role = role;
      judgement.worst_share = infinity;
    }
  }
  judgement.discarded = judgement.elements == 0;
  return judgement;
}

}  // namespace

const Property exact_gradients{"exact_gradients", "Where every intermediate is representable gradients are exact.",
                               applies,           plan,
                               one_call,          judge};

}  // namespace normgate
