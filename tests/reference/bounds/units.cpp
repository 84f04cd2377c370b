// The units that bounds are made of (reference/bounds/rounding.hpp).
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/bounds/rounding.hpp"
#include "reference/bounds/statistics.hpp"

namespace normgate {
namespace {

TEST(Units, gamma_factor_covers_products_of_rounded_factors) {
  for (const int k : {1, 2, 5, 100, 100000}) {
    const long double up = std::expm1(k * std::log1p(0x1p-24L));
    const long double down = -std::expm1(k * std::log1p(-0x1p-24L));
    EXPECT_GE(gamma_factor(k, 0x1p-24), up) << k;
    EXPECT_GE(gamma_factor(k, 0x1p-24), down) << k;
    EXPECT_LE(gamma_factor(k, 0x1p-24), 1.02L * up) << k;
  }
  EXPECT_EQ(gamma_factor(0, 0x1p-24), 0);
  EXPECT_EQ(gamma_factor(0x1p23, 0x1p-24), infinity);
}

TEST(Units, compound_keeps_what_is_lost_beside_one) {
  EXPECT_EQ(compound({0x1p-60}), 0x1p-60);
  EXPECT_EQ(compound({0x1p-53, 0x1p-53}), 0x1p-52);
  EXPECT_EQ(compound({0.5, 0.5}), 1.25);
  EXPECT_EQ(compound({}), 0);
}

TEST(Units, sum_factor_is_the_smaller_of_length_and_depth) {
  const Sum sequential;
  EXPECT_EQ(sum_factor(sequential, 1, ScalarType::float32), 0);
  EXPECT_EQ(sum_factor(sequential, 2, ScalarType::float32), 0x1p-24);
  EXPECT_EQ(sum_factor(sequential, 16777219, ScalarType::float32), 16777218 * 0x1p-24);  // finite where γ is not
  const Sum lanes{SumOrder::interleaved, 8, 1};
  EXPECT_EQ(sum_factor(lanes, 768, ScalarType::float32), gamma_factor(96 + 3, 0x1p-24));
  EXPECT_EQ(sum_factor(lanes, 3, ScalarType::float32), 2 * 0x1p-24);
  const Sum tree{SumOrder::pairwise, 1, 1};
  EXPECT_EQ(sum_factor(tree, 1024, ScalarType::float64), gamma_factor(11, 0x1p-53));
}

// A sequential sum of numbers just above a power of two, each addition of which rounds down by nearly half a unit, uses
// a good part of (n-1) u, so that the bound is no factor too large.
TEST(Units, a_worst_sum_uses_the_factor) {
  float sum = 1;
  double exact = 1;
  const int n = 64;
  for (int i = 1; i < n; ++i) {
    const float term = 0x1.fffffep-25F;  // below half of the unit in the last place of 1
    sum += term;
    exact += static_cast<double>(term);
  }
  const double bound = sum_factor(Sum{}, n, ScalarType::float32) * exact;
  EXPECT_LE(std::fabs(static_cast<double>(sum) - exact), bound);
  EXPECT_GE(std::fabs(static_cast<double>(sum) - exact), 0.9 * bound);
}

TEST(Units, ulp_of_a_scale_is_never_that_of_subnormals) {
  EXPECT_EQ(ulp_float32(1.0), 0x1p-23);
  EXPECT_EQ(ulp_float32(1.999), 0x1p-23);
  EXPECT_EQ(ulp_float32(0x1p100), 0x1p77);
  EXPECT_EQ(ulp_float32(0), 0x1p-149);
  EXPECT_EQ(ulp_float32(0x1.8p-126), 0x1p-149);
  EXPECT_EQ(ulp_float32(infinity), infinity);
}

TEST(Units, the_grid_of_a_number_is_the_worth_of_its_last_bit) {
  EXPECT_EQ(bounds::grid_of(0.75), 0.25);
  EXPECT_EQ(bounds::grid_of(-3 * 0x1p-149), 0x1p-149);
  EXPECT_EQ(bounds::grid_of(0x1p100), 0x1p100);
  EXPECT_EQ(bounds::grid_of(1 + 0x1p-52), 0x1p-52);
  EXPECT_EQ(bounds::grid_of(0x1p-1074), 0x1p-1074);
  EXPECT_EQ(bounds::grid_of(6 * 0x1p-1074), 0x1p-1073);
  EXPECT_EQ(bounds::grid_of(0), infinity);
  EXPECT_EQ(bounds::grid_of(infinity), infinity);
}

TEST(Units, underflow_of_each_type) {
  EXPECT_EQ(underflow_unit(ScalarType::float32, Subnormals::kept), 0x1p-150);
  EXPECT_EQ(underflow_unit(ScalarType::float32, Subnormals::flushed), 0x1p-126);
  EXPECT_EQ(underflow_unit(ScalarType::float64, Subnormals::flushed), 0x1p-1022);
}

}  // namespace
}  // namespace normgate
