// The bounds of merged statistics: kernels that merge as the ABI's header says, in whatever way it leaves them, stay
// within; kernels with a known bug do not. And the statistics of parts that are off move those of the union by no more
// than derived.
#include "reference/bounds/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"
#include "tests/reference/bounds/arithmetic.hpp"
#include "tests/reference/bounds/emulated.hpp"

namespace normgate {
namespace {

using emulated::Draw;

enum class Way { chain, chain_of_variances, weighted_chain, at_once, raw_moments };

template <typename T>
struct Partial {
  T n = 0;
  T mean = 0;
  T spread = 0;  // sum of squares, or variance
};

// Mean and variance of one group. Parts are merged in the order of `sum`; those without elements are skipped.
template <typename T>
Partial<T> merged(const std::vector<Partial<T>>& parts, const Sum& sum, Way way) {
  const auto count = static_cast<std::int64_t>(parts.size());
  const auto part = [&](std::int64_t i) { return parts[static_cast<std::size_t>(i)]; };
  const auto total = [&](auto term) {
    return emulated::reduce<T>(
        count, sum, [&](T& all, std::int64_t i) { all += part(i).n == 0 ? T(0) : term(part(i)); },
        [](T a, T b) { return a + b; });
  };
  if (way == Way::at_once || way == Way::raw_moments) {
    const T n = total([](const Partial<T>& p) { return p.n; });
    const T mean = total([](const Partial<T>& p) { return p.n * p.mean; }) / n;
    if (way == Way::raw_moments)
      return {n, mean, total([](const Partial<T>& p) { return p.n * (p.spread + p.mean * p.mean); }) / n - mean * mean};
    return {n, mean, total([mean](const Partial<T>& p) {
                       const T d = p.mean - mean;
                       return p.n * (p.spread + d * d);
                     }) / n};
  }
  const bool variances = way == Way::chain_of_variances;
  const auto merge = [&](const Partial<T>& a, const Partial<T>& b) {
    if (b.n == 0) return a;
    Partial<T> both;
    both.n = a.n + b.n;
    const T d = b.mean - a.mean;
    both.mean = way == Way::weighted_chain ? (a.n * a.mean + b.n * b.mean) / both.n : a.mean + d * b.n / both.n;
    both.spread = variances ? (a.n * a.spread + b.n * b.spread) / both.n + d * d * (a.n / both.n) * (b.n / both.n)
                            : a.spread + b.spread + d * d * a.n * b.n / both.n;
    return both;
  };
  Partial<T> all = emulated::reduce<Partial<T>>(
      count, sum,
      [&](Partial<T>& lane, std::int64_t i) {
        Partial<T> next = part(i);
        if (next.n == 0) return;
        if (!variances) next.spread = next.n * next.spread;
        lane = merge(lane, next);
      },
      merge);
  if (!variances) all.spread = all.spread / all.n;
  return all;
}

Problem draw_problem(Draw& draw) {
  Problem p;
  p.phase = Phase::merge_statistics;
  p.variant = draw.of(
      {Variant::batch_norm, Variant::layer_norm, Variant::group_norm, Variant::instance_norm, Variant::rms_norm});
  const VariantRow& row = row_of(p.variant);
  for (std::size_t a = 0; a < axis_count; ++a)
    p.shape[a] = row.reduced.has(a) ? draw.of<std::int64_t>({1, 2, 3, 5, 9, 17}) : draw.of<std::int64_t>({1, 2});
  p.profile = draw.of({Profile::conditioned, Profile::drift, Profile::needle, Profile::near_constant, Profile::constant,
                       Profile::exact, Profile::exact_sum, Profile::outlier_channels});
  p.kappa = draw.of({0.0, 1.0, 3.0, 30.0, 1e3, 1e5});
  p.scale = draw.of({0, 0, -3, 20, -40, 40});
  p.key = draw.bits();
  return p;
}

struct Tried {
  double worst = 0;
  std::int64_t judged = 0;
};

template <typename T>
void try_one(const Problem& problem, const Claim& claim, Way way, Tried& tried) {
  const VariantRow& row = row_of(problem.variant);
  const Inputs inputs = make_inputs(problem);
  const Truth truth = forward_truth(problem, inputs);
  const Bounds bounds = forward_bounds(problem, inputs, truth, claim);
  const Groups groups(problem.shape, row);
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::vector<Partial<T>> parts;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const auto at = static_cast<std::size_t>(i);
      parts.push_back({static_cast<T>(inputs[Role::part_count][parts.size()]),
                       row.centred ? static_cast<T>(inputs[Role::part_mean][at]) : T(0),
                       static_cast<T>(inputs[Role::part_stat][at])});
    });
    const Partial<T> got = merged(parts, claim.group_sum, way);
    const auto compare = [&](Role role, T value) {
      if (truth.out[role].empty()) return;
      const auto at = static_cast<std::size_t>(q);
      const double tolerance = bounds.tolerance[role][at];
      if (tolerance == infinity) return;
      ++tried.judged;
      const double error = distance(static_cast<double>(static_cast<float>(value)), truth.out[role][at]);
      ASSERT_LE(error, tolerance + truth.out[role][at].bound)
          << print(problem) << " " << name_of(role) << " of group " << q << " merged in way " << static_cast<int>(way)
          << ", sum order " << static_cast<int>(claim.group_sum.order) << ": " << static_cast<double>(value) << ", not "
          << truth.out[role][at].hi;
      if (error > 0) tried.worst = std::max(tried.worst, error / tolerance);
    };
    compare(Role::mean, got.mean);
    compare(Role::stat, got.spread);
  }
}

TEST(MergeBounds, HoldForEveryWayThatIsAllowed) {
  Draw draw(11);
  Tried tried;
  for (int trial = 0; trial < 6000 && !HasFailure(); ++trial) {
    const Problem problem = draw_problem(draw);
    ASSERT_EQ(check(problem), "") << print(problem);
    Claim claim;
    claim.group_sum =
        draw.of({Sum{}, Sum{SumOrder::interleaved, 4, 1}, Sum{SumOrder::interleaved, 16, 1},
                 Sum{SumOrder::pairwise, 1, 1}, Sum{SumOrder::pairwise, 2, 8}, Sum{SumOrder::blocked, 2, 4}});
    const Way way = draw.of({Way::chain, Way::chain_of_variances, Way::weighted_chain, Way::at_once, Way::raw_moments});
    if (way == Way::raw_moments) claim.variance = VarianceAlgorithm::one_pass;
    if (draw.one_in(4)) {
      claim.accumulator = claim.statistics = ScalarType::float64;
      try_one<double>(problem, claim, way, tried);
    } else {
      try_one<float>(problem, claim, way, tried);
    }
  }
  EXPECT_GT(tried.judged, 20000);
  EXPECT_GT(tried.worst, 0.02);
}

// Of 1 and 3, 5, 2 and 1, and parts of very different counts: what the known bugs make of them is far outside.
TEST(MergeBounds, KnownBugsAreOutside) {
  struct Bug {
    const char* name;
    double mean;
    double variance;
  };
  Problem problem;
  problem.phase = Phase::merge_statistics;
  problem.variant = Variant::batch_norm;
  problem.shape = {3, 1, 1, 1};
  Inputs inputs;
  inputs[Role::part_count] = {5, 2, 1};
  inputs[Role::part_mean] = {3, 7, 3};
  inputs[Role::part_stat] = {2, 1, 0};
  const Truth truth = forward_truth(problem, inputs);
  const Bounds bounds = forward_bounds(problem, inputs, truth, Claim{});
  const double mean = truth.out[Role::mean][0].hi;
  const double variance = truth.out[Role::stat][0].hi;
  EXPECT_LT(bounds.tolerance[Role::mean][0], 1e-4);
  EXPECT_LT(bounds.tolerance[Role::stat][0], 1e-4);
  for (const Bug& bug : {Bug{"counts ignored", 13.0 / 3, 0}, Bug{"between-part term left out", mean, 12.0 / 8},
                         Bug{"first count", 32.0 / 15, 0}, Bug{"n-1", mean, variance * 8 / 7}}) {
    const bool outside = std::fabs(bug.mean - mean) > bounds.tolerance[Role::mean][0] ||
                         std::fabs(bug.variance - variance) > bounds.tolerance[Role::stat][0];
    EXPECT_TRUE(outside) << bug.name;
  }
}

// Raw moments in float32 at |mean|/sigma = 1e4 are outside the bound of the other ways.
TEST(MergeBounds, RawMomentsAreOutsideWhereTheMeanIsFarFromZero) {
  Problem problem;
  problem.phase = Phase::merge_statistics;
  problem.variant = Variant::batch_norm;
  problem.shape = {6, 1, 8, 1};
  problem.kappa = 1e4;
  int outside = 0;
  for (problem.key = 1; problem.key <= 20; ++problem.key) {
    const Inputs inputs = make_inputs(problem);
    const Truth truth = forward_truth(problem, inputs);
    const Bounds bounds = forward_bounds(problem, inputs, truth, Claim{});
    for (std::size_t q = 0; q < 8; ++q) {
      std::vector<Partial<float>> parts;
      for (std::size_t p = 0; p < 6; ++p)
        parts.push_back(
            {inputs[Role::part_count][p], inputs[Role::part_mean][8 * p + q], inputs[Role::part_stat][8 * p + q]});
      const float variance = merged(parts, Sum{}, Way::raw_moments).spread;
      outside += distance(static_cast<double>(variance), truth.out[Role::stat][q]) > bounds.tolerance[Role::stat][q];
    }
  }
  EXPECT_GT(outside, 40);
}

TEST(MergeBounds, PartsThatAreOffMoveTheUnionByNoMoreThanDerived) {
  Draw draw(12);
  const auto real = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(draw.bits() >> 11U) * 0x1p-53;
  };
  double worst_mean = 0;
  double worst_variance = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const auto count = draw.of<std::size_t>({1, 2, 3, 7});
    struct Part {
      double n, mean, variance, off_mean, off_variance;
    };
    std::vector<Part> parts;
    for (std::size_t p = 0; p < count; ++p)
      parts.push_back({std::floor(real(p == 0 ? 1 : 0, 9)), real(-3, 3), real(0, 2), real(-0.1, 0.1), real(-0.1, 0.1)});
    const auto of = [&](double share) {
      double n = 0, mean = 0, variance = 0;
      for (const Part& part : parts) n += part.n;
      for (const Part& part : parts) mean += part.n * (part.mean + share * part.off_mean) / n;
      for (const Part& part : parts) {
        const double d = part.mean + share * part.off_mean - mean;
        variance += part.n * (part.variance + share * part.off_variance + d * d) / n;
      }
      return std::pair(mean, variance);
    };
    const auto [mean, variance] = of(0);
    const auto [moved_mean, moved_variance] = of(1);
    std::vector<PartError> errors;
    for (const Part& part : parts)
      errors.push_back({part.n, part.mean - mean, std::fabs(part.off_mean), std::fabs(part.off_variance)});
    const Moved moved = moved_by(errors);
    EXPECT_LE(std::fabs(moved_mean - mean), moved.mean + 1e-12);
    EXPECT_LE(std::fabs(moved_variance - variance), moved.variance + 1e-12);
    worst_mean = std::max(worst_mean, std::fabs(moved_mean - mean) / moved.mean);
    worst_variance = std::max(worst_variance, std::fabs(moved_variance - variance) / moved.variance);
  }
  EXPECT_GT(worst_mean, 0.9);
  EXPECT_GT(worst_variance, 0.7);
}

}  // namespace
}  // namespace normgate
