// What the algebra says must be the same bits: rows that coincide, shifts, powers of two, order of the elements.
#include <algorithm>
#include <cmath>

#include "support.hpp"

namespace normgate {
namespace {

constexpr std::uint64_t seed = 0x5EED;

// Two centred rows whose reduced axes differ only on axes of extent 1 are one normalization (affine axes are the same
// for all five).
TEST(Symmetry, RowsThatDifferOnAxesOfExtentOneAreTheSame) {
  Draw draw(seed);
  int pairs = 0;
  for (const VariantRow& a : variant_table())
    for (const VariantRow& b : variant_table()) {
      if (a.variant == b.variant || a.centred != b.centred) continue;
      ++pairs;
      for (int trial = 0; trial < 6; ++trial) {
        Problem problem;
        problem.saved = true;
        problem.variant = a.variant;
        problem.key = draw.word();
        problem.kappa = trial % 2 == 0 ? 1 : 1000;
        for (std::size_t axis = 0; axis < axis_count; ++axis)
          problem.shape[axis] = a.reduced.has(axis) != b.reduced.has(axis) ? 1 : 1 + draw.below(6);
        const Inputs inputs = make_inputs(problem);
        Problem other = problem;
        other.variant = b.variant;
        const Truth first = definition_forward(problem, inputs);
        const Truth second = definition_forward(other, inputs);
        for (const Role role : {Role::y, Role::mean, Role::stat})
          expect_same(first.out[role], second.out[role], std::string(a.name) + " and " + std::string(b.name));
      }
    }
  EXPECT_EQ(pairs, 12);  // four centred rows
}

// layer_norm looks at G·K alone: (G, K) = (3, 4) and (1, 12) are one problem.
TEST(Symmetry, LayerNormDoesNotSeeHowItsAxesAreSplit) {
  for (const Variant variant : {Variant::layer_norm, Variant::rms_norm}) {
    Problem problem;
    problem.variant = variant;
    problem.shape = {2, 3, 4, 2};
    problem.saved = true;
    const Inputs inputs = make_inputs(problem);
    Problem flat = problem;
    flat.shape = {2, 1, 12, 2};
    const Truth a = definition_forward(problem, inputs);
    const Truth b = definition_forward(flat, inputs);
    for (const Role role : {Role::y, Role::mean, Role::stat}) expect_same(a.out[role], b.out[role], "split axes");
  }
}

// x + c where both are representable: y, variance and reciprocal deviation do not move; rms_norm does.
TEST(Symmetry, ARepresentableShiftMovesTheMeanAlone) {
  Draw draw(seed + 1);
  for (const VariantRow& row : variant_table())
    for (const float shift : {1.0F, -4096.0F, 8388608.0F, 0.25F}) {
      Problem problem;
      problem.variant = row.variant;
      problem.shape = {3, 2, 3, 4};
      problem.saved = true;
      Inputs inputs = make_inputs(problem);
      // Quarters below 16 and integers below 2^22, so that each sum with a shift is a float32.
      for (float& x : inputs[Role::x])
        x = shift == 0.25F ? static_cast<float>(draw.below(64)) / 4 : static_cast<float>(draw.below(1U << 22U));
      const Truth before = definition_forward(problem, inputs);
      for (float& x : inputs[Role::x]) {
        ASSERT_EQ(static_cast<double>(x + shift), static_cast<double>(x) + static_cast<double>(shift));
        x += shift;
      }
      const Truth after = definition_forward(problem, inputs);
      if (!row.centred) {
        EXPECT_FALSE(same(before.out[Role::y][0], after.out[Role::y][0]));
        continue;
      }
      expect_same(before.out[Role::y], after.out[Role::y], std::string(row.name));
      expect_same(before.out[Role::stat], after.out[Role::stat], std::string(row.name));
      for (std::size_t q = 0; q < before.out[Role::mean].size(); ++q)
        EXPECT_NEAR(after.out[Role::mean][q].hi - before.out[Role::mean][q].hi, static_cast<double>(shift), 1e-8);
    }
}

// x·2^k with eps·4^k (2^k outside the root): y does not move, the mean by 2^k, the variance by 4^k, 1/D by 2^-k.
TEST(Symmetry, APowerOfTwoChangesNoBit) {
  for (const VariantRow& row : variant_table())
    for (const std::string convention : {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor", "sample_variance",
                                         "pytorch,saved:variance", "pytorch,gamma:plus_one"})
      for (const int k : {-40, -1, 3, 40}) {
        Problem problem;
        problem.variant = row.variant;
        problem.shape = {2, 2, 3, 5};
        problem.convention = parse_convention(convention).convention.value_or(Convention{});
        problem.saved = true;
        problem.kappa = 10;
        problem.key = 99;
        problem.eps = 0.125;
        Inputs inputs = make_inputs(problem);
        const Truth before = definition_forward(problem, inputs);
        for (float& x : inputs[Role::x]) x = std::ldexp(x, k);
        const bool outside = problem.convention.eps == EpsPlacement::outside;
        problem.eps = std::ldexp(problem.eps, outside ? k : 2 * k);
        ASSERT_EQ(check(problem), "");
        const Truth after = definition_forward(problem, inputs);
        const std::string what = std::string(row.name) + " " + convention + " 2^" + std::to_string(k);
        const auto scaled = [](std::vector<Exact> values, int power) {
          for (Exact& value : values) {
            value.hi = std::ldexp(value.hi, power);
            value.lo = std::ldexp(value.lo, power);
          }
          return values;
        };
        expect_same(before.out[Role::y], after.out[Role::y], what);
        expect_same(scaled(before.out[Role::mean], k), after.out[Role::mean], what);
        const bool variance = problem.convention.saved == SavedStatistic::variance;
        expect_same(scaled(before.out[Role::stat], variance ? 2 * k : -k), after.out[Role::stat], what);
      }
}

TEST(Symmetry, TheSignOfXIsTheSignOfY) {
  for (const VariantRow& row : variant_table()) {
    Problem problem;
    problem.variant = row.variant;
    problem.shape = {3, 2, 2, 3};
    problem.beta = false;
    problem.kappa = 100;
    Inputs inputs = make_inputs(problem);
    const Truth before = definition_forward(problem, inputs);
    for (float& x : inputs[Role::x]) x = -x;
    Truth after = definition_forward(problem, inputs);
    for (Exact& y : after.out[Role::y]) y = {-y.hi, -y.lo, y.bound};
    expect_same(before.out[Role::y], after.out[Role::y], std::string(row.name));
  }
}

// A reference value depends on no group but its own, and on no position within it.
TEST(Symmetry, OrderAndOtherGroupsDoNotMatter) {
  Problem problem = problem_of("forward_training layer_norm n=3 g=1 k=7 s=1 gamma=0 beta=0 saved=1 kappa=1e6");
  Inputs inputs = make_inputs(problem);
  const Truth before = definition_forward(problem, inputs);
  auto& x = inputs[Role::x];
  std::reverse(x.begin() + 7, x.begin() + 14);
  std::fill(x.begin(), x.begin() + 7, 1e30F);
  std::fill(x.begin() + 14, x.end(), -1e-30F);
  const Truth after = definition_forward(problem, inputs);
  std::vector<Exact> expected(before.out[Role::y].begin() + 7, before.out[Role::y].begin() + 14);
  std::reverse(expected.begin(), expected.end());
  const std::vector<Exact> got(after.out[Role::y].begin() + 7, after.out[Role::y].begin() + 14);
  // The sum of squares is rounded in its order, so the last of 334 bits may differ; of hi and lo nothing does unless a
  // value lies within 2^-290 of a boundary.
  expect_same(expected, got, "reversed row");
  EXPECT_TRUE(same(before.out[Role::stat][1], after.out[Role::stat][1]));
}

// Inference with the statistics that training has: where they are representable, the same bits.
TEST(Symmetry, InferenceWithOwnStatisticsIsTraining) {
  for (const VariantRow& row : variant_table()) {
    Problem training;
    training.variant = row.variant;
    training.shape = {2, 2, 2, 4};
    training.profile = Profile::exact;
    training.level = 3;
    training.eps = 7;
    training.saved = true;
    ASSERT_EQ(check(training), "");
    Inputs inputs = make_inputs(training);
    const Truth trained = definition_forward(training, inputs);
    Problem inference = training;
    inference.phase = Phase::forward_inference;
    inference.saved = false;
    inference.given = Given::saved;
    for (const Role role : {Role::mean, Role::stat})
      for (const Exact& value : trained.out[role]) {
        ASSERT_EQ(value.lo, 0.0);
        inputs[role].push_back(static_cast<float>(value.hi));
      }
    const Truth inferred = definition_forward(inference, inputs);
    expect_same(trained.out[Role::y], inferred.out[Role::y], std::string(row.name));
  }
}

}  // namespace
}  // namespace normgate
