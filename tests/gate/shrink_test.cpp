// Shrinking: every step is valid and smaller, and walks end at the smallest problem that fails.
#include "properties/generators/shrink.hpp"

#include <gtest/gtest.h>

#include "reference/problem/data.hpp"

namespace normgate {
namespace {

Problem large_problem() {
  Problem problem;
  problem.variant = Variant::layer_norm;
  problem.shape = {5, 1, 771, 1};
  problem.saved = true;
  problem.in_place = true;
  problem.misalign = 3;
  problem.fence = Fence::left;
  problem.kappa = 1000;
  problem.scale = 12;
  problem.eps = 0.5;
  problem.key = 0x123456789abcdef0;
  problem.layout[Role::gamma].step = 3;
  return problem;
}

bool always() { return true; }

TEST(Shrink, StepsAreValidDifferentAndKeepPhaseVariantAndConvention) {
  const Problem problem = large_problem();
  ASSERT_EQ(check(problem), "");
  const std::vector<Problem> steps = smaller(problem);
  EXPECT_GT(steps.size(), 20U);
  for (const Problem& step : steps) {
    EXPECT_EQ(check(step), "") << print(step);
    EXPECT_NE(step, problem);
    EXPECT_EQ(step.variant, problem.variant);
    EXPECT_EQ(step.phase, problem.phase);
    EXPECT_EQ(step.convention, problem.convention);
    for (std::size_t axis = 0; axis < axis_count; ++axis) EXPECT_LE(step.shape[axis], problem.shape[axis]);
    EXPECT_LE(step.key, problem.key);
  }
}

TEST(Shrink, TheWalkEndsAtTheBoundaryOfTheFailure) {
  const auto fails = [](const Problem& problem) { return problem.shape[2] >= 37 && problem.gamma; };
  const Shrunk shrunk = smallest(large_problem(), fails, 1000, always);
  EXPECT_EQ(shrunk.problem.shape, (Shape{1, 1, 37, 1}));
  EXPECT_TRUE(shrunk.problem.gamma);
  EXPECT_FALSE(shrunk.problem.beta);
  EXPECT_FALSE(shrunk.problem.saved);
  EXPECT_FALSE(shrunk.problem.in_place);
  EXPECT_EQ(shrunk.problem.misalign, 0);
  EXPECT_EQ(shrunk.problem.kappa, 1);
  EXPECT_EQ(shrunk.problem.scale, 0);
  EXPECT_EQ(shrunk.problem.key, 0U);
  EXPECT_EQ(shrunk.problem.eps, Problem{}.eps);
}

TEST(Shrink, EveryProblemHasAnEnd) {
  const Shrunk shrunk = smallest(
      large_problem(), [](const Problem&) { return true; }, 10000, always);
  EXPECT_TRUE(smaller(shrunk.problem).empty()) << print(smaller(shrunk.problem).front());
  EXPECT_EQ(element_count(shrunk.problem.shape), 1);
}

TEST(Shrink, BudgetsAreKept) {
  int asked = 0;
  const auto never = [&](const Problem&) {
    ++asked;
    return false;
  };
  EXPECT_EQ(smallest(large_problem(), never, 7, always).tries, 7);
  EXPECT_EQ(asked, 7);
  EXPECT_EQ(smallest(large_problem(), never, 100, [] { return false; }).tries, 0);
}

TEST(Shrink, ExactDataKeepTheirEps) {
  Problem problem;
  problem.profile = Profile::exact;
  problem.shape = {3, 1, 16, 1};
  problem.level = 5;
  problem.eps = exact_eps(problem.convention, 5).value();
  for (const Problem& step : smaller(problem)) EXPECT_EQ(step.eps, exact_eps(step.convention, step.level).value());
}

}  // namespace
}  // namespace normgate
