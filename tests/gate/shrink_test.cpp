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

Problem large_backward() {
  Problem problem = large_problem();
  problem.phase = Phase::backward_training;
  problem.handed = Handed::shifted;
  problem.cotangent = Cotangent::mixed;
  return problem;
}

TEST(Shrink, BackwardStepsAreValidAndEnd) {
  Problem expanded = large_backward();
  expanded.in_place = false;
  expanded.cotangent = Cotangent::pooled;
  expanded.layout[Role::dy].broadcast = {Axis::s};
  Problem from_output = large_backward();
  from_output.from_output = true;
  Problem inference = large_backward();
  inference.phase = Phase::backward_inference;
  inference.saved = false;
  inference.handed = Handed::nearest;
  inference.given = Given::saved;
  for (const Problem& problem : {large_backward(), expanded, from_output, inference}) {
    ASSERT_EQ(check(problem), "");
    for (const Problem& step : smaller(problem)) {
      EXPECT_EQ(check(step), "") << print(step);
      EXPECT_NE(step, problem);
      EXPECT_EQ(step.phase, problem.phase);
      EXPECT_EQ(step.given, problem.given);
      // Which tensors stand for x is the kernel's choice, not the problem's.
      EXPECT_EQ(step.from_output, problem.from_output);
    }
    const Shrunk shrunk = smallest(
        problem, [](const Problem&) { return true; }, 10000, always);
    EXPECT_TRUE(smaller(shrunk.problem).empty()) << print(smaller(shrunk.problem).front());
    EXPECT_EQ(element_count(shrunk.problem.shape), 1);
    EXPECT_EQ(shrunk.problem.cotangent, Cotangent::ones);
    EXPECT_EQ(shrunk.problem.handed, Handed::nearest);
    EXPECT_FALSE(shrunk.problem.in_place);
    EXPECT_EQ(shrunk.problem.layout, PerRole<Layout>{});
  }
}

TEST(Shrink, WhatTheFailureNeedsOfABackwardProblemStays) {
  const auto fails = [](const Problem& problem) {
    return problem.saved && problem.beta && problem.shape[0] >= 2 && problem.cotangent != Cotangent::ones;
  };
  const Problem shrunk = smallest(large_backward(), fails, 1000, always).problem;
  EXPECT_EQ(shrunk.shape, (Shape{2, 1, 1, 1}));
  EXPECT_EQ(shrunk.cotangent, Cotangent::random);
  EXPECT_TRUE(shrunk.saved);
  EXPECT_TRUE(shrunk.beta);
  EXPECT_FALSE(shrunk.gamma);
  const auto in_place = [](const Problem& problem) { return problem.in_place; };
  EXPECT_TRUE(smallest(large_backward(), in_place, 1000, always).problem.in_place);
  // An expanded gradient stays one as long as that is what fails.
  Problem expanded = large_backward();
  expanded.in_place = false;
  expanded.cotangent = Cotangent::ones;
  expanded.layout[Role::dy].broadcast = {Axis::n, Axis::g, Axis::k, Axis::s};
  const auto is_expanded = [](const Problem& problem) { return !problem.layout[Role::dy].broadcast.empty(); };
  EXPECT_EQ(print(smallest(expanded, is_expanded, 1000, always).problem),
            "backward_training layer_norm n=1 g=1 k=1 s=1 dy.layout=ngks gamma=0 beta=0 cotangent=ones key=0x0");
}

TEST(Shrink, StepsComeBackInsideTheClaim) {
  // A kernel of one layout for all: a failure that padding brings must not end in tensors laid out differently.
  Problem padded = large_backward();
  padded.in_place = false;
  for (const Role role : {Role::x, Role::dy, Role::dx}) padded.layout[role] = Layout{.pad = 3};
  const auto one_layout = [](Problem problem) {
    problem.layout[Role::dy] = problem.layout[Role::dx] = problem.layout[Role::x];
    return problem;
  };
  int tried = 0;
  const auto fails = [&](const Problem& problem) {
    ++tried;
    EXPECT_EQ(problem.layout[Role::dy], problem.layout[Role::x]) << print(problem);
    EXPECT_EQ(problem.layout[Role::dx], problem.layout[Role::x]) << print(problem);
    return problem.layout[Role::x].pad > 0;
  };
  const Problem shrunk = smallest(padded, fails, 1000, always, one_layout).problem;
  EXPECT_GT(tried, 10);
  EXPECT_EQ(shrunk.layout[Role::dx].pad, 3);
  EXPECT_EQ(element_count(shrunk.shape), 1);
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

TEST(Shrink, TheSimplestProfileIsTried) {
  Problem problem = large_problem();
  problem.profile = Profile::parameter_rounding;
  problem.eps = 1e-5;
  problem.momentum = 0.1;
  ASSERT_EQ(check(problem), "");
  const Shrunk any = smallest(
      problem, [](const Problem&) { return true; }, 10000, always);
  EXPECT_EQ(any.problem.profile, Profile::conditioned);
  const auto needs_needle = [](const Problem& p) { return p.profile == Profile::needle; };
  problem = large_problem();
  problem.profile = Profile::needle;
  EXPECT_EQ(smallest(problem, needs_needle, 1000, always).problem.profile, Profile::needle);
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
