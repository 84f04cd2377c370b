// The truncation of difference quotients stays within its bound, whatever the step, and near it: at 160 digits, where
// nothing else is left.
#include "reference/bounds/differences.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/affine.hpp"
#include "reference/truth/backward.hpp"
#include "reference/truth/finite_differences.hpp"

namespace normgate {
namespace {

// One element of a group that moves alone.
DirectionTerms terms_of(const Problem& problem, const Inputs& inputs, const Truth& truth, std::int64_t group,
                        std::size_t element) {
  const VariantRow& row = row_of(problem.variant);
  const Groups groups(problem.shape, row);
  const GroupTruth& statistics = truth.groups[static_cast<std::size_t>(group)];
  const auto n = static_cast<double>(groups.size());
  double values = 0, mean_g = 0, own = 0;
  groups.for_each(group, [&](std::int64_t i, const Shape& at) {
    const auto index = static_cast<std::size_t>(i);
    const double g = static_cast<double>(inputs[Role::dy][index]) * gamma_in_use(problem, inputs, row, at);
    values += g * minus(static_cast<double>(inputs[Role::x][index]), statistics.mean);
    mean_g += g / n;
    if (index == element) own = g;
  });
  const bool n_minus_1 = row.centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1;
  DirectionTerms terms;
  terms.deviation = std::sqrt(statistics.variance.hi);
  terms.unit =
      problem.convention.eps == EpsPlacement::outside && terms.deviation > 0 ? terms.deviation : 1 / statistics.rstd.hi;
  terms.rstd = statistics.rstd.hi;
  terms.of_values = std::fabs(values) * (1 + 1e-12) + 1e-12;
  terms.of_motion = std::fabs(own - (row.centred ? mean_g : 0)) * (1 + 1e-12) + 1e-12;
  terms.steepness = std::sqrt((row.centred ? 1 - 1 / n : 1) / (n - (n_minus_1 ? 1 : 0)));
  terms.eps = problem.eps;
  terms.placement = problem.convention.eps;
  return terms;
}

TEST(Differences, TruncationStaysWithinItsBoundAndComesNearIt) {
  for (const char* convention : {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor", "sample_variance"}) {
    double worst = 0;
    std::int64_t judged = 0, infinite = 0;
    for (const VariantRow& row : variant_table())
      for (const std::int64_t n : {2, 3, 5, 12, 40})
        for (const double eps : {0x1p-10, 0.25, 16.0})
          for (const std::uint64_t key : {1U, 2U, 3U}) {
            Problem problem;
            problem.phase = Phase::backward_training;
            problem.variant = row.variant;
            problem.shape = row.reduced.has(Axis::k) ? Shape{1, 1, n, 1} : Shape{1, 1, 1, n};
            problem.eps = eps;
            problem.convention = *parse_convention(convention).convention;
            problem.cotangent = key == 1 ? Cotangent::unit : key == 2 ? Cotangent::mixed : Cotangent::random;
            problem.key = 77 * key + static_cast<std::uint64_t>(n);
            ASSERT_EQ(check(problem), "") << print(problem);
            const Inputs inputs = make_inputs(problem);
            const Truth truth = definition_backward(problem, inputs, SavedUse::recomputes);
            // The last step of the ladder is far outside the range where the series would be known to converge.
            for (const int decade : {-3, -2, -1, 0}) {
              const Differences quotients = finite_differences(problem, inputs, DifferenceOrder::fourth, decade);
              for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
                const double bound =
                    truncation_bound(terms_of(problem, inputs, truth, 0, j), std::pow(10.0, decade) * (1 + 1e-15));
                if (bound == infinity) {
                  ++infinite;
                  continue;
                }
                ++judged;
                ASSERT_FALSE(quotients.kink[0]) << print(problem) << " at " << j << ", 10^" << decade;
                const Exact& got = quotients.out[Role::dx][j];
                const Exact& derivative = truth.out[Role::dx][j];
                const double error = std::fabs((got.hi - derivative.hi) + (got.lo - derivative.lo));
                ASSERT_LE(error, bound + 0x1p-100 * std::fabs(derivative.hi))
                    << print(problem) << " at " << j << ", 10^" << decade;
                if (bound > 0) worst = std::max(worst, error / bound);
              }
            }
          }
    EXPECT_GT(judged, 2 * infinite) << convention;
    EXPECT_GT(worst, convention == std::string("pytorch,eps:outside") ? 0.005 : 0.1) << convention;
    RecordProperty(std::string("nearest_") + convention, std::to_string(worst));
  }
}

TEST(Differences, NothingIsKnownAtAKinkOrBeyondTheSeries) {
  DirectionTerms terms;
  terms.unit = terms.rstd = terms.of_values = terms.of_motion = terms.deviation = 1;
  terms.steepness = 0.5;
  EXPECT_LT(truncation_bound(terms, 0.5), infinity);
  EXPECT_EQ(truncation_bound(terms, 1.0), infinity);
  terms.placement = EpsPlacement::outside;
  EXPECT_EQ(truncation_bound(terms, 0.5), infinity);
  terms.deviation = 0;
  EXPECT_EQ(truncation_bound(terms, 0.01), infinity);
  terms.placement = EpsPlacement::floor;
  terms.eps = 1;
  EXPECT_EQ(truncation_bound(terms, 0.25), 0) << "far below the floor the forward is linear";
  terms.deviation = 0.9;
  EXPECT_EQ(truncation_bound(terms, 0.25), infinity);
  EXPECT_EQ(truncation_bound(terms, 0.01), 0);
  terms.constant = true;
  EXPECT_EQ(truncation_bound(terms, 100), 0);
}

}  // namespace
}  // namespace normgate
