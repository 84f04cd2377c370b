// What is rounded where it is computed is what the stored certificates round to, and the tiers decide as often.
#include "reference/truth/tiers/rounded_floats.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/reference/truth/tiers/problems.hpp"

namespace normgate {
namespace {

using tiers::correctly_rounded;
using tiers::correctly_rounded_floats;
using tiers::Format;
using tiers::Rounded;
using tiers::RoundedFloats;

void expect_the_same(const Problem& problem, const Inputs& inputs, SavedUse use, RoundedFloats& floats) {
  const Rounded rounded = correctly_rounded(problem, inputs, use, Format::float32);
  correctly_rounded_floats(problem, inputs, use, floats);
  EXPECT_EQ(floats.counts, rounded.counts) << print(problem);
  EXPECT_LE(floats.precise_test, floats.counts.fast);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    ASSERT_EQ(floats.out[role].size(), rounded.out[role].size()) << print(problem) << " " << name_of(role);
    for (std::size_t i = 0; i < floats.out[role].size(); ++i) {
      const auto got = static_cast<double>(floats.out[role][i]);
      const double want = rounded.out[role][i];
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << print(problem) << " " << name_of(role) << "[" << i << "]: " << hexfloat(got) << ", not " << hexfloat(want);
    }
  }
}

// The same memory throughout, as the roles and sizes change.
TEST(RoundedFloats, AreTheCorrectRoundingsOfRandomProblems) {
  RoundedFloats floats;
  for (const Phase phase : normalizing_phases) {
    Draw draw(0x5eed0000 + static_cast<std::uint64_t>(phase));
    for (int trial = 0; trial < 400; ++trial) {
      const Problem problem = draw_problem(draw, phase);
      ASSERT_EQ(check(problem), "");
      Inputs inputs = make_inputs(problem);
      if (trial % 4 == 0) (void)spoil_some(draw, inputs);
      expect_the_same(problem, inputs, static_cast<SavedUse>(draw.below(4)), floats);
    }
  }
}

// Groups of several blocks and a part, contiguous and not, and more rows than are taken at once, in every row.
TEST(RoundedFloats, AreTheCorrectRoundingsOfGroupsOfSeveralBlocks) {
  RoundedFloats floats;
  for (const VariantRow& row : variant_table())
    for (const Phase phase : normalizing_phases)
      for (const Shape& shape :
           {Shape{2, 1, 2061, 1}, Shape{2, 1, 3, 1031}, Shape{1030, 2, 1, 3}, Shape{37, 1, 600, 1}}) {
        Problem problem;
        problem.phase = phase;
        problem.variant = row.variant;
        problem.shape = shape;
        if (!is_training(phase)) problem.given = Given::saved;
        problem.key = 7;
        ASSERT_EQ(check(problem), "");
        expect_the_same(problem, make_inputs(problem), SavedUse::undeclared, floats);
      }
}

// x = ±1 about a mean of 0 with variance 1: y = gamma (±1) / sqrt(1 + eps) + beta for eps = 3 is ±gamma/2 + beta, a
// midpoint of float32 for gamma = 2^-23, beside an even beta = 1 and an odd one.
TEST(RoundedFloats, TiesAreLeftToTheExactTier) {
  Problem problem;
  problem.shape = {1, 1, 16, 1};
  problem.eps = 3;
  Inputs inputs = make_inputs(problem);
  for (std::size_t i = 0; i < 16; ++i) {
    inputs[Role::x][i] = i % 2 == 0 ? 1.0F : -1.0F;
    inputs[Role::gamma][i] = 0x1p-23F;
    inputs[Role::beta][i] = i < 8 ? 1.0F : 1.0F + 0x1p-23F;
  }
  RoundedFloats floats;
  expect_the_same(problem, inputs, SavedUse::undeclared, floats);
  EXPECT_EQ(floats.counts.exact, 12);  // 1 - 2^-24 is a value
  EXPECT_EQ(floats.counts.fast, 4);
  EXPECT_EQ(floats.precise_test, 0);
  EXPECT_EQ(floats.out[Role::y][0], 1.0F);
  EXPECT_EQ(floats.out[Role::y][8], 1.0F + 0x1p-22F);
  EXPECT_EQ(floats.out[Role::y][9], 1.0F);
}

}  // namespace
}  // namespace normgate
