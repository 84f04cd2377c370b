// NaN and infinities by the dependency sets of the definition, for every row: a NaN in an output's set makes it NaN,
// an infinity gives the definition's extended-real value, and what does not depend on either does not move.
#include <cmath>
#include <limits>

#include "support.hpp"

namespace normgate {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

Problem training_of(const VariantRow& row) {
  Problem problem;
  problem.variant = row.variant;
  problem.shape = {2, 2, 2, 3};
  problem.saved = true;
  problem.running = !row.running.empty();
  problem.key = 0x5A;
  return problem;
}
Problem inference_of(const VariantRow& row, Given given) {
  Problem problem;
  problem.phase = Phase::forward_inference;
  problem.variant = row.variant;
  problem.shape = {2, 2, 2, 3};
  problem.given = given;
  problem.key = 0x5B;
  return problem;
}

// Visits every element with its coordinates and dense index.
template <typename Visit>
void for_each_element(const Shape& shape, Visit visit) {
  std::size_t i = 0;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t g = 0; g < shape[1]; ++g)
      for (std::int64_t k = 0; k < shape[2]; ++k)
        for (std::int64_t s = 0; s < shape[3]; ++s) visit(i++, Shape{n, g, k, s});
}
std::size_t channel_of(const Problem& problem, const Shape& at) {
  return static_cast<std::size_t>(at[1] * problem.shape[2] + at[2]);
}

class EveryRow : public testing::TestWithParam<VariantRow> {};
INSTANTIATE_TEST_SUITE_P(Rows, EveryRow, testing::ValuesIn(variant_table().begin(), variant_table().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryRow, ANanReachesItsGroupAndNothingElse) {
  const VariantRow& row = GetParam();
  const Problem problem = training_of(row);
  const Inputs clean = make_inputs(problem);
  const Truth before = definition_forward(problem, clean);
  const Shape spot{1, 0, 1, 2};
  const auto spot_index = static_cast<std::size_t>(dense_index(problem.shape, axes_of(Role::x, row), spot));
  Inputs inputs = clean;
  inputs[Role::x][spot_index] = nan;
  const Truth after = definition_forward(problem, inputs);
  const auto hit = static_cast<std::size_t>(group_index(problem, spot));
  std::size_t reached = 0;
  for_each_element(problem.shape, [&](std::size_t i, const Shape& at) {
    const Exact& y = after.out[Role::y][i];
    if (static_cast<std::size_t>(group_index(problem, at)) == hit) {
      EXPECT_TRUE(std::isnan(y.hi)) << i;
      EXPECT_EQ(y.lo, 0.0);
      EXPECT_EQ(y.bound, 0.0);
      ++reached;
    } else {
      EXPECT_TRUE(same(y, before.out[Role::y][i])) << i;
    }
  });
  EXPECT_EQ(reached, static_cast<std::size_t>(group_size(problem)));
  for (const Role role : {Role::mean, Role::stat})
    for (std::size_t q = 0; q < after.out[role].size(); ++q)
      EXPECT_TRUE(q == hit ? std::isnan(after.out[role][q].hi) : same(after.out[role][q], before.out[role][q]))
          << name_of(role) << " of group " << q;
  for (const Role role : {Role::running_mean, Role::running_var})
    for (std::size_t c = 0; c < after.out[role].size(); ++c)
      EXPECT_TRUE(c == channel_of(problem, spot) ? std::isnan(after.out[role][c].hi)
                                                 : same(after.out[role][c], before.out[role][c]))
          << name_of(role) << " of channel " << c;
}

TEST_P(EveryRow, AnInfinityGivesTheExtendedRealValue) {
  const VariantRow& row = GetParam();
  const Problem problem = training_of(row);
  const Shape spot{0, 1, 1, 0};
  const auto spot_index = static_cast<std::size_t>(dense_index(problem.shape, axes_of(Role::x, row), spot));
  const auto hit = static_cast<std::size_t>(group_index(problem, spot));
  Inputs inputs = make_inputs(problem);
  const Truth before = definition_forward(problem, inputs);
  for (const float value : {inf, -inf}) {
    inputs[Role::x][spot_index] = value;
    const Truth after = definition_forward(problem, inputs);
    // Centred: the mean is infinite, inf - inf makes the variance NaN. Else the mean square is infinite and 1/D is 0:
    // what is finite gives beta, 0·inf is NaN.
    if (row.centred) {
      EXPECT_EQ(after.out[Role::mean][hit].hi, static_cast<double>(value));
      EXPECT_TRUE(std::isnan(after.out[Role::stat][hit].hi));
    } else {
      EXPECT_EQ(after.out[Role::stat][hit].hi, 0.0);
      EXPECT_EQ(after.groups[hit].variance.hi, static_cast<double>(inf));
    }
    for_each_element(problem.shape, [&](std::size_t i, const Shape& at) {
      const Exact& y = after.out[Role::y][i];
      if (static_cast<std::size_t>(group_index(problem, at)) != hit) {
        EXPECT_TRUE(same(y, before.out[Role::y][i])) << i;
      } else if (row.centred || i == spot_index) {
        EXPECT_TRUE(std::isnan(y.hi)) << i;
      } else {
        EXPECT_EQ(y.hi, static_cast<double>(inputs[Role::beta][channel_of(problem, at)])) << i;
        EXPECT_EQ(y.lo, 0.0);
      }
    });
    for (std::size_t c = 0; c < after.out[Role::running_mean].size(); ++c) {
      const bool here = c == channel_of(problem, spot);
      EXPECT_TRUE(here ? after.out[Role::running_mean][c].hi == static_cast<double>(value)
                       : same(after.out[Role::running_mean][c], before.out[Role::running_mean][c]));
      EXPECT_TRUE(here ? std::isnan(after.out[Role::running_var][c].hi)
                       : same(after.out[Role::running_var][c], before.out[Role::running_var][c]));
    }
  }
}

TEST_P(EveryRow, BothInfinitiesHaveNoMean) {
  const VariantRow& row = GetParam();
  Problem problem = training_of(row);
  problem.shape = {2, 1, 1, 1};
  const bool along_n = row.reduced.has(Axis::n);
  if (!along_n) problem.shape = row.reduced.has(Axis::s) ? Shape{1, 1, 1, 2} : Shape{1, 1, 2, 1};
  Inputs inputs = make_inputs(problem);
  inputs[Role::x] = {inf, -inf};
  const Truth truth = definition_forward(problem, inputs);
  if (row.centred) {
    EXPECT_TRUE(std::isnan(truth.out[Role::mean][0].hi));
  }
  for (const Exact& y : truth.out[Role::y]) EXPECT_TRUE(std::isnan(y.hi));
}

TEST_P(EveryRow, GammaAndBetaReachTheirChannelAlone) {
  const VariantRow& row = GetParam();
  for (const bool training : {true, false}) {
    const Problem problem = training ? training_of(row) : inference_of(row, Given::saved);
    const Inputs clean = make_inputs(problem);
    const Truth before = definition_forward(problem, clean);
    for (const Role role : {Role::gamma, Role::beta})
      for (const float value : {nan, inf, -inf}) {
        Inputs inputs = clean;
        inputs[role][2] = value;
        const Truth after = definition_forward(problem, inputs);
        for_each_element(problem.shape, [&](std::size_t i, const Shape& at) {
          const Exact& y = after.out[Role::y][i];
          if (channel_of(problem, at) != 2) {
            EXPECT_TRUE(same(y, before.out[Role::y][i])) << name_of(role) << " at " << i;
          } else if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(y.hi));
          } else if (role == Role::beta) {
            EXPECT_EQ(y.hi, static_cast<double>(value));
          } else {
            // ±inf by the sign of x - mean, which that of the product with the old gamma tells.
            const double product = before.out[Role::y][i].hi - static_cast<double>(clean[Role::beta][2]);
            ASSERT_NE(product, 0.0);
            const bool positive = (product > 0) == (clean[Role::gamma][2] > 0);
            EXPECT_EQ(y.hi, static_cast<double>(positive ? value : -value));
          }
        });
        for (const Role statistic : {Role::mean, Role::stat, Role::running_mean, Role::running_var})
          expect_same(before.out[statistic], after.out[statistic], "statistics");
      }
  }
}

// An infinite gamma on a constant group is 0·inf.
TEST_P(EveryRow, AnInfiniteGammaTimesZeroIsNan) {
  Problem problem = training_of(GetParam());
  Inputs inputs = make_inputs(problem);
  for (float& x : inputs[Role::x]) x = 0;
  inputs[Role::gamma].assign(inputs[Role::gamma].size(), inf);
  const Truth truth = definition_forward(problem, inputs);
  for (const Exact& y : truth.out[Role::y]) EXPECT_TRUE(std::isnan(y.hi));
}

TEST_P(EveryRow, InferenceTakesEachElementForItself) {
  const VariantRow& row = GetParam();
  for (const Given given : {Given::saved, Given::running}) {
    if (given == Given::running && row.running.empty()) continue;
    const Problem problem = inference_of(row, given);
    Inputs inputs = make_inputs(problem);
    const Truth before = definition_forward(problem, inputs);
    inputs[Role::x][5] = nan;
    inputs[Role::x][7] = inf;
    inputs[Role::x][11] = -inf;
    const Truth after = definition_forward(problem, inputs);
    for_each_element(problem.shape, [&](std::size_t i, const Shape& at) {
      const double y = after.out[Role::y][i].hi;
      const double gamma = static_cast<double>(inputs[Role::gamma][channel_of(problem, at)]);
      if (i == 5) {
        EXPECT_TRUE(std::isnan(y));
      } else if (i == 7 || i == 11) {
        EXPECT_EQ(y, (i == 7) == (gamma > 0) ? static_cast<double>(inf) : -static_cast<double>(inf));
      } else {
        EXPECT_TRUE(same(after.out[Role::y][i], before.out[Role::y][i])) << i;
      }
    });
  }
}

// What a given statistic may be: NaN spreads, a variance below -eps has no root, an infinite one gives beta.
TEST_P(EveryRow, GivenStatistics) {
  const VariantRow& row = GetParam();
  for (const Given given : {Given::saved, Given::running}) {
    if (given == Given::running && row.running.empty()) continue;
    Problem problem = inference_of(row, given);
    problem.convention.saved = SavedStatistic::variance;
    problem.eps = 0.5;
    const Role variance = given == Given::saved ? Role::stat : Role::running_var;
    const Role mean = given == Given::saved ? Role::mean : Role::running_mean;
    const Inputs clean = make_inputs(problem);
    const Truth before = definition_forward(problem, clean);
    const auto one = [&](Role role, float value, auto expected) {
      Inputs inputs = clean;
      inputs[role][1] = value;
      const Truth after = definition_forward(problem, inputs);
      std::size_t reached = 0;
      for_each_element(problem.shape, [&](std::size_t i, const Shape& at) {
        const std::size_t owner =
            given == Given::saved ? static_cast<std::size_t>(group_index(problem, at)) : channel_of(problem, at);
        const Exact& y = after.out[Role::y][i];
        if (owner == 1) {
          ++reached;
          expected(y, channel_of(problem, at));
        } else {
          EXPECT_TRUE(same(y, before.out[Role::y][i])) << name_of(role) << " " << value << " at " << i;
        }
      });
      EXPECT_GT(reached, 0U);
    };
    const auto is_nan = [](const Exact& y, std::size_t) { EXPECT_TRUE(std::isnan(y.hi)); };
    one(variance, nan, is_nan);
    one(variance, -0.75F, is_nan);
    one(variance, -inf, is_nan);
    one(variance, inf, [&](const Exact& y, std::size_t c) {
      EXPECT_EQ(y.hi, static_cast<double>(clean[Role::beta][c]));
      EXPECT_EQ(y.lo, 0.0);
    });
    one(variance, -0.25F, [](const Exact& y, std::size_t) { EXPECT_TRUE(y.finite()); });  // above -eps
    if (!row.centred) continue;
    one(mean, nan, is_nan);
    for (const float value : {inf, -inf})
      one(mean, value, [&](const Exact& y, std::size_t c) {
        const bool positive = (value < 0) == (clean[Role::gamma][c] > 0);
        EXPECT_EQ(y.hi, positive ? static_cast<double>(inf) : -static_cast<double>(inf));
      });
  }
}

// Zeros and subnormals are numbers like others.
TEST_P(EveryRow, SubnormalsAreNumbers) {
  const VariantRow& row = GetParam();
  Problem problem = training_of(row);
  problem.running = false;
  problem.eps = 0;
  Inputs inputs = make_inputs(problem);
  Draw draw(0x50B);
  auto& x = inputs[Role::x];
  for (float& value : x) value = static_cast<float>(1 + draw.below(1000)) * 0x1p-149F;
  const Truth tiny = definition_forward(problem, inputs);
  for (float& value : x) value = std::ldexp(value, 149);
  const Truth whole = definition_forward(problem, inputs);
  expect_same(tiny.out[Role::y], whole.out[Role::y], "y of subnormals");
  for (const Exact& y : tiny.out[Role::y]) EXPECT_TRUE(y.finite());
}

}  // namespace
}  // namespace normgate
