// NaN and infinities in the gradients by the dependency sets of the definition, for every row: a NaN in an output's set
// makes it NaN, also where a factor of 0 stands before it; what does not depend on it does not move. dbeta never
// depends on x.
#include <cmath>
#include <functional>
#include <limits>

#include "drawn.hpp"
#include "reference/truth/backward.hpp"

namespace normgate {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

class EveryRowBackward : public testing::TestWithParam<VariantRow> {};
INSTANTIATE_TEST_SUITE_P(Rows, EveryRowBackward, testing::ValuesIn(variant_table().begin(), variant_table().end()),
                         [](const auto& info) { return std::string(info.param.name); });

Problem training_of(const VariantRow& row) {
  Problem problem;
  problem.phase = Phase::backward_training;
  problem.variant = row.variant;
  problem.shape = {2, 2, 2, 3};
  problem.key = 0x5C;
  return problem;
}
Problem inference_of(const VariantRow& row) {
  Problem problem = training_of(row);
  problem.phase = Phase::backward_inference;
  problem.given = Given::saved;
  return problem;
}

// The last element of the second sample's first group of channels, somewhere in the middle of dx.
constexpr std::size_t spot = 12 + 3 + 2;

// What moved, in comparison with the clean inputs: NaN exactly where `reached` says so, the same bits elsewhere.
using Reached = std::function<bool(std::size_t)>;
void expect_nan_exactly(const std::vector<Exact>& before, const std::vector<Exact>& after, const Reached& reached,
                        const std::string& what) {
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(before[i].finite()) << what << " at " << i;
    if (reached(i)) {
      EXPECT_TRUE(std::isnan(after[i].hi)) << what << " at " << i << " is " << after[i].hi;
      EXPECT_EQ(after[i].lo, 0.0);
      EXPECT_EQ(after[i].bound, 0.0);
    } else {
      EXPECT_TRUE(same(before[i], after[i])) << what << " at " << i;
    }
  }
}

struct Reach {
  Reached dx;
  Reached dgamma;
  Reached dbeta;
};
bool nowhere(std::size_t) { return false; }

void expect_reach(const Problem& problem, const Inputs& clean, const Inputs& spoilt, SavedUse use, const Reach& reach,
                  const std::string& what) {
  ASSERT_EQ(check(problem), "");
  SCOPED_TRACE(print(problem) + " " + what);
  const Truth before = definition_backward(problem, clean, use);
  const Truth after = definition_backward(problem, spoilt, use);
  expect_nan_exactly(before.out[Role::dx], after.out[Role::dx], reach.dx, "dx");
  expect_nan_exactly(before.out[Role::dgamma], after.out[Role::dgamma], reach.dgamma, "dgamma");
  expect_nan_exactly(before.out[Role::dbeta], after.out[Role::dbeta], reach.dbeta, "dbeta");
}

Inputs with(const Inputs& clean, Role role, std::size_t at, float value) {
  Inputs inputs = clean;
  inputs[role][at] = value;
  return inputs;
}

// The dependency sets: of a group, of the channels that meet it, of one element.
struct Sets {
  explicit Sets(const Problem& problem) : group(groups_of(problem)), channel(channels_of(problem)) {}
  [[nodiscard]] Reached in_group(std::size_t q) const {
    return [this, q](std::size_t i) { return group[i] == q; };
  }
  [[nodiscard]] Reached meets_group(std::size_t q) const {
    return [this, q](std::size_t c) {
      for (std::size_t i = 0; i < group.size(); ++i)
        if (group[i] == q && channel[i] == c) return true;
      return false;
    };
  }
  [[nodiscard]] Reached in_groups_of_channel(std::size_t c) const {
    return [this, c](std::size_t i) { return meets_group(group[i])(c); };
  }
  static Reached only(std::size_t one) {
    return [one](std::size_t i) { return i == one; };
  }
  std::vector<std::size_t> group;
  std::vector<std::size_t> channel;
};

// In each placement of eps; as a floor above the variance, where the last term is 0 and D a constant.
TEST_P(EveryRowBackward, InTrainingANanReachesItsGroup) {
  for (const char* placement : {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor"})
    for (const double eps : {0.25, 1024.0})
      for (const std::int32_t single : {0, 2})
        for (const std::int32_t divisor : {0, 1}) {
          Problem problem = training_of(GetParam());
          problem.convention = *parse_convention(placement).convention;
          problem.convention.normalizing = static_cast<NormalizingDivisor>(divisor);
          problem.convention.single = static_cast<SingleCount>(single);
          problem.eps = eps;
          const Inputs clean = make_inputs(problem);
          const Sets sets(problem);
          const std::size_t q = sets.group[spot];
          const std::size_t c = sets.channel[spot];
          // x^ of the whole group is NaN, whatever the floor.
          expect_reach(problem, clean, with(clean, Role::x, spot, nan), SavedUse::recomputes,
                       {sets.in_group(q), sets.meets_group(q), nowhere}, "NaN in x");
          expect_reach(problem, clean, with(clean, Role::dy, spot, nan), SavedUse::recomputes,
                       {sets.in_group(q), Sets::only(c), Sets::only(c)}, "NaN in dy");
          expect_reach(problem, clean, with(clean, Role::gamma, c, nan), SavedUse::recomputes,
                       {sets.in_groups_of_channel(c), nowhere, nowhere}, "NaN in gamma");
        }
}

// Constant groups, whose x^ is 0: 0 times NaN stays. eps outside is at its kink there.
TEST_P(EveryRowBackward, ANanReachesConstantGroups) {
  for (const char* placement : {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor"}) {
    Problem problem = training_of(GetParam());
    problem.convention = *parse_convention(placement).convention;
    problem.profile = Profile::constant;
    problem.kappa = 0;
    const Inputs clean = make_inputs(problem);
    const Sets sets(problem);
    const std::size_t q = sets.group[spot];
    const std::size_t c = sets.channel[spot];
    expect_reach(problem, clean, with(clean, Role::x, spot, nan), SavedUse::recomputes,
                 {sets.in_group(q), sets.meets_group(q), nowhere}, "NaN in x");
    expect_reach(problem, clean, with(clean, Role::dy, spot, nan), SavedUse::recomputes,
                 {sets.in_group(q), Sets::only(c), Sets::only(c)}, "NaN in dy");
  }
}

// A group of one value under n-1, whose variance is 0 by convention.
TEST_P(EveryRowBackward, ANanReachesASingleValue) {
  for (const std::int32_t single : {1, 2}) {
    Problem problem = training_of(GetParam());
    problem.shape = {1, 1, 1, 1};
    problem.convention.normalizing = NormalizingDivisor::n_minus_1;
    problem.convention.single = static_cast<SingleCount>(single);
    const Inputs clean = make_inputs(problem);
    expect_reach(problem, clean, with(clean, Role::x, 0, nan), SavedUse::recomputes,
                 {Sets::only(0), Sets::only(0), nowhere}, "NaN in x");
    expect_reach(problem, clean, with(clean, Role::dy, 0, nan), SavedUse::recomputes,
                 {Sets::only(0), Sets::only(0), Sets::only(0)}, "NaN in dy");
  }
}

TEST_P(EveryRowBackward, FromHandedStatisticsANanReachesItsGroup) {
  const VariantRow& row = GetParam();
  for (const char* placement : {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor"})
    for (const double eps : {0.25, 1024.0})
      for (const SavedStatistic saved : {SavedStatistic::rstd, SavedStatistic::variance})
        for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook}) {
          Problem problem = training_of(row);
          problem.convention = *parse_convention(placement).convention;
          problem.convention.saved = saved;
          problem.eps = eps;
          problem.saved = true;
          const Inputs clean = make_inputs(problem);
          const Sets sets(problem);
          const std::size_t q = sets.group[spot];
          const std::size_t c = sets.channel[spot];
          // x^ of the other elements does not depend on x of this one.
          expect_reach(problem, clean, with(clean, Role::x, spot, nan), use, {sets.in_group(q), Sets::only(c), nowhere},
                       "NaN in x");
          expect_reach(problem, clean, with(clean, Role::dy, spot, nan), use,
                       {sets.in_group(q), Sets::only(c), Sets::only(c)}, "NaN in dy");
          expect_reach(problem, clean, with(clean, Role::stat, q, nan), use,
                       {sets.in_group(q), sets.meets_group(q), nowhere}, "NaN in stat");
          if (row.centred)
            expect_reach(problem, clean, with(clean, Role::mean, q, nan), use,
                         {sets.in_group(q), sets.meets_group(q), nowhere}, "NaN in mean");
          // They are of no account to a backward that recomputes.
          expect_reach(problem, clean, with(clean, Role::stat, q, nan), SavedUse::recomputes,
                       {nowhere, nowhere, nowhere}, "NaN in stat");
        }
}

TEST_P(EveryRowBackward, FromTheOutputANanReachesItsGroup) {
  for (const char* placement : {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor"}) {
    Problem problem = training_of(GetParam());
    problem.convention = *parse_convention(placement).convention;
    problem.saved = true;
    problem.from_output = true;
    problem.eps = 0.25;
    const Inputs clean = make_inputs(problem);
    const Sets sets(problem);
    const std::size_t q = sets.group[spot];
    const std::size_t c = sets.channel[spot];
    const SavedUse use = SavedUse::from_output;
    expect_reach(problem, clean, with(clean, Role::y, spot, nan), use, {sets.in_group(q), Sets::only(c), nowhere},
                 "NaN in y");
    expect_reach(problem, clean, with(clean, Role::beta, c, nan), use,
                 {sets.in_groups_of_channel(c), Sets::only(c), nowhere}, "NaN in beta");
    expect_reach(problem, clean, with(clean, Role::gamma, c, nan), use,
                 {sets.in_groups_of_channel(c), Sets::only(c), nowhere}, "NaN in gamma");
    expect_reach(problem, clean, with(clean, Role::stat, q, nan), use, {sets.in_group(q), nowhere, nowhere},
                 "NaN in stat");
  }
}

// The statistics are constants: dx depends on its own dy and gamma and not on x.
TEST_P(EveryRowBackward, InInferenceANanReachesItsOwn) {
  const VariantRow& row = GetParam();
  const Problem problem = inference_of(row);
  const Inputs clean = make_inputs(problem);
  const Sets sets(problem);
  const std::size_t q = sets.group[spot];
  const std::size_t c = sets.channel[spot];
  const SavedUse use = SavedUse::undeclared;
  expect_reach(problem, clean, with(clean, Role::x, spot, nan), use, {nowhere, Sets::only(c), nowhere}, "NaN in x");
  expect_reach(problem, clean, with(clean, Role::dy, spot, nan), use, {Sets::only(spot), Sets::only(c), Sets::only(c)},
               "NaN in dy");
  expect_reach(problem, clean, with(clean, Role::gamma, c, nan), use,
               {[&](std::size_t i) { return sets.channel[i] == c; }, nowhere, nowhere}, "NaN in gamma");
  expect_reach(problem, clean, with(clean, Role::stat, q, nan), use, {sets.in_group(q), sets.meets_group(q), nowhere},
               "NaN in stat");
  if (row.centred)
    expect_reach(problem, clean, with(clean, Role::mean, q, nan), use, {nowhere, sets.meets_group(q), nowhere},
                 "NaN in mean");
}

TEST_P(EveryRowBackward, WhatIsAddedToIsAddedTo) {
  Problem problem = training_of(GetParam());
  problem.convention.gradients = Gradients::accumulate;
  const Inputs clean = make_inputs(problem);
  expect_reach(problem, clean, with(clean, Role::dgamma, 2, nan), SavedUse::recomputes,
               {nowhere, Sets::only(2), nowhere}, "NaN in dgamma");
  expect_reach(problem, clean, with(clean, Role::dbeta, 1, nan), SavedUse::recomputes,
               {nowhere, nowhere, Sets::only(1)}, "NaN in dbeta");
  const Truth truth = definition_backward(problem, with(clean, Role::dgamma, 3, -inf), SavedUse::recomputes);
  EXPECT_EQ(truth.out[Role::dgamma][3].hi, static_cast<double>(-inf));
  // An old value counts only where it is added to.
  problem.convention.gradients = Gradients::overwrite;
  expect_reach(problem, clean, with(clean, Role::dgamma, 2, nan), SavedUse::recomputes, {nowhere, nowhere, nowhere},
               "NaN in dgamma");
}

// What the statistics of x make of an infinity: centred, inf - inf; the mean square is infinite, 1/D = 0, and 0·inf.
TEST_P(EveryRowBackward, InTrainingAnInfinityLeavesNoNumber) {
  const Problem problem = training_of(GetParam());
  const Inputs clean = make_inputs(problem);
  const Sets sets(problem);
  const std::size_t q = sets.group[spot];
  const std::size_t c = sets.channel[spot];
  for (const float value : {inf, -inf}) {
    const Truth before = definition_backward(problem, clean, SavedUse::recomputes);
    const Truth in_x = definition_backward(problem, with(clean, Role::x, spot, value), SavedUse::recomputes);
    const Truth in_dy = definition_backward(problem, with(clean, Role::dy, spot, value), SavedUse::recomputes);
    for (std::size_t i = 0; i < sets.group.size(); ++i)
      for (const Truth* truth : {&in_x, &in_dy}) {
        const Exact& dx = truth->out[Role::dx][i];
        EXPECT_TRUE(sets.group[i] == q ? !dx.finite() : same(dx, before.out[Role::dx][i])) << i;
      }
    expect_same(before.out[Role::dbeta], in_x.out[Role::dbeta], "dbeta");
    EXPECT_EQ(in_dy.out[Role::dbeta][c].hi, static_cast<double>(value));
    // inf x^ is infinite where x^ is not 0.
    EXPECT_TRUE(std::isinf(in_dy.out[Role::dgamma][c].hi));
    EXPECT_TRUE(std::isnan(in_x.out[Role::dgamma][c].hi));
  }
}

TEST_P(EveryRowBackward, InInferenceAnInfinityGivesTheExtendedRealValue) {
  const Problem problem = inference_of(GetParam());
  Inputs clean = make_inputs(problem);
  const Sets sets(problem);
  const std::size_t q = sets.group[spot];
  const std::size_t c = sets.channel[spot];
  clean[Role::gamma][c] = -2;
  clean[Role::dy][spot] = 3;
  const Truth before = definition_backward(problem, clean, SavedUse::undeclared);
  const Truth in_dy = definition_backward(problem, with(clean, Role::dy, spot, inf), SavedUse::undeclared);
  for (std::size_t i = 0; i < sets.group.size(); ++i) {
    const Exact& dx = in_dy.out[Role::dx][i];
    EXPECT_TRUE(i == spot ? dx.hi == static_cast<double>(-inf) : same(dx, before.out[Role::dx][i])) << i;
  }
  EXPECT_EQ(in_dy.out[Role::dbeta][c].hi, static_cast<double>(inf));
  const Truth in_x = definition_backward(problem, with(clean, Role::x, spot, -inf), SavedUse::undeclared);
  EXPECT_EQ(in_x.out[Role::dgamma][c].hi, static_cast<double>(-inf));  // dy = 3
  expect_same(before.out[Role::dx], in_x.out[Role::dx], "dx");
  // 1/D = 0 and infinite.
  const Truth zero = definition_backward(problem, with(clean, Role::stat, q, 0), SavedUse::undeclared);
  const Truth infinite = definition_backward(problem, with(clean, Role::stat, q, inf), SavedUse::undeclared);
  EXPECT_EQ(zero.out[Role::dx][spot].hi, 0.0);
  EXPECT_EQ(infinite.out[Role::dx][spot].hi, static_cast<double>(-inf));
}

// Given variances below -eps have no root; eps = 0 at zero variance divides by 0.
TEST(SpecialGradients, NoRootIsNan) {
  const std::string line = "backward_inference batch_norm n=2 g=1 k=2 s=1 given=running eps=0.5 ";
  const Problem problem = problem_of(line + "values=running_var:[-0.75,1.5]");
  const Truth truth = definition_backward(problem, make_inputs(problem), SavedUse::undeclared);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(truth.out[Role::dx][i].hi), i % 2 == 0);
  EXPECT_TRUE(std::isnan(truth.out[Role::dgamma][0].hi));
  EXPECT_TRUE(truth.out[Role::dgamma][1].finite());
  EXPECT_TRUE(truth.out[Role::dbeta][0].finite());
  const Problem zero = problem_of("backward_training layer_norm n=1 g=1 k=2 s=1 eps=0 gamma=0 values=x:[7,7];dy:[1,2]");
  const Truth undefined = definition_backward(zero, make_inputs(zero), SavedUse::recomputes);
  for (const Exact& dx : undefined.out[Role::dx]) EXPECT_FALSE(dx.finite());
}

// 0 by convention is at the floor of 0 whatever x is: nothing is left to be compared over the rationals, which have no
// NaN.
TEST(SpecialGradients, AFloorOfZeroMeetsANan) {
  const Problem problem = problem_of(
      "backward_training layer_norm n=2 g=1 k=1 s=1 eps=0 gamma=0 convention=keras,normalizing:n_minus_1,single:zero,"
      "eps:floor values=x:[nan,3];dy:[0,0]");
  const Truth truth = definition_backward(problem, make_inputs(problem), SavedUse::recomputes);
  for (const Exact& dx : truth.out[Role::dx]) EXPECT_FALSE(dx.finite());
  for (const Exact& dbeta : truth.out[Role::dbeta]) EXPECT_EQ(dbeta.hi, 0);
}

}  // namespace
}  // namespace normgate
