// Bounds that let bugs through would be worthless: kernels that break their claim or convention exceed them, and the
// levels stay decisive to n = 2^20.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "reference/bounds/rounding.hpp"
#include "tests/reference/bounds/emulated.hpp"

namespace normgate {
namespace {

struct Judged {
  emulated::Share share;
  Bounds bounds;
};

// `kernel` is the problem as the kernel misunderstands it, `does` what it does in place of `claims`.
Judged judge(const Problem& problem, const Claim& claims, const Problem& kernel, const Claim& does) {
  const Inputs inputs = make_inputs(problem);
  const Truth truth = forward_truth(problem, inputs);
  Judged result;
  result.bounds = forward_bounds(problem, inputs, truth, claims);
  result.share =
      emulated::share_of_bound(problem, inputs, truth, result.bounds, emulated::run(kernel, inputs, does, {}));
  return result;
}

Problem layer(std::int64_t n, Profile profile, double kappa = 1) {
  Problem p;
  p.shape = {1, 1, n, 1};
  p.profile = profile;
  p.kappa = kappa;
  p.saved = true;
  p.key = 0x5eed;
  return p;
}

TEST(Usefulness, one_pass_variance_exceeds_the_bound_of_two_pass) {
  Claim one_pass;
  one_pass.variance = VarianceAlgorithm::one_pass;
  for (const std::int64_t n : {4, 8, 32, 128, 768})
    for (const double kappa : {30.0, 100.0, 1000.0}) {
      double most = 0, most_sound = 0;
      for (std::uint64_t key = 0; key < 16; ++key) {
        Problem p = layer(n, Profile::conditioned, kappa);
        p.key = key;
        most = std::max(most, judge(p, Claim{}, p, one_pass).share.worst);
        most_sound = std::max(most_sound, judge(p, Claim{}, p, Claim{}).share.worst);
      }
      std::cout << "  n " << n << ", kappa " << kappa << ": one-pass " << most << ", two-pass " << most_sound << "\n";
      EXPECT_LE(most_sound, 1);
      if (kappa >= 100) {
        EXPECT_GT(most, 1) << n << " " << kappa;
      }
    }
}

// 1/(2n) is the gain of a divisor n-1 in place of n; on exact-sum data no depth hides it.
TEST(Usefulness, divisor_n_minus_1_exceeds_the_gain_bound) {
  for (const std::int64_t n : {2, 3, 16, 1000, 16384, 1 << 17, 1 << 20}) {
    Problem p = layer(n, Profile::exact_sum);
    p.gamma = p.beta = false;
    p.level = 3;
    Problem wrong = p;
    wrong.convention.normalizing = NormalizingDivisor::n_minus_1;
    Claim claim;
    claim.divides_by_n = n == 1000;
    const auto bug = judge(p, claim, wrong, claim);
    const auto sound = judge(p, claim, p, claim);
    std::cout << "  n " << n << ": gain bound " << bug.share.gain_bound / unit_float32 << " u, n-1 gains "
              << 0.5 / static_cast<double>(n) / unit_float32 << " u: share " << bug.share.gain << ", sound "
              << sound.share.gain << "\n";
    EXPECT_GT(bug.share.gain, n == (1 << 20) ? 1 : 2) << n;
    EXPECT_LE(sound.share.gain, 1) << n;
    EXPECT_LE(sound.share.worst, 1) << n;
  }
}

TEST(Usefulness, the_reverse_divisor_shows_where_n_minus_1_is_declared) {
  for (const std::int64_t n : {2, 3, 16, 1000, 16384}) {
    Problem p = layer(n, Profile::exact_sum);
    p.gamma = p.beta = false;
    p.convention.normalizing = NormalizingDivisor::n_minus_1;
    Problem wrong = p;
    wrong.convention.normalizing = NormalizingDivisor::n;
    EXPECT_GT(judge(p, Claim{}, wrong, Claim{}).share.gain, 1) << n;
    EXPECT_LE(judge(p, Claim{}, p, Claim{}).share.gain, 1) << n;
  }
}

TEST(Usefulness, misplaced_and_ignored_eps_exceed_the_bound) {
  for (const std::int64_t n : {2, 16, 768})
    for (const auto placement : {EpsPlacement::outside, EpsPlacement::floor}) {
      Problem p = layer(n, Profile::conditioned);
      p.eps = 0.125;
      Problem wrong = p;
      wrong.convention.eps = placement;
      EXPECT_GT(judge(p, Claim{}, wrong, Claim{}).share.worst, 100) << n;
      wrong = p;
      wrong.eps = 9.99999974737875163555145263671875e-06;
      EXPECT_GT(judge(p, Claim{}, wrong, Claim{}).share.worst, 100) << n;
    }
}

TEST(Usefulness, wrong_momentum_exceeds_the_bound) {
  Problem p;
  p.variant = Variant::batch_norm;
  p.shape = {32, 1, 3, 4};
  p.running = true;
  p.kappa = 3;
  for (const auto form : {MomentumForm::old_weight, MomentumForm::cumulative}) {
    Problem wrong = p;
    wrong.convention.momentum = form;
    wrong.step = 3;
    EXPECT_GT(judge(p, Claim{}, wrong, Claim{}).share.worst, 1e4);
  }
  Problem wrong = p;
  wrong.convention.stored = StoredDivisor::n;
  EXPECT_GT(judge(p, Claim{}, wrong, Claim{}).share.worst, 10);
  EXPECT_LE(judge(p, Claim{}, p, Claim{}).share.worst, 1);
}

TEST(Usefulness, float_sums_exceed_the_bound_of_double_sums) {
  Claim doubles;
  doubles.accumulator = doubles.statistics = ScalarType::float64;
  const Problem p = layer(768, Profile::conditioned, 100);
  EXPECT_GT(judge(p, doubles, p, Claim{}).share.worst, 5);
  Claim sums = doubles;
  sums.statistics = ScalarType::float32;
  Problem q = layer(4096, Profile::conditioned, 1000);
  double most = 0;
  for (std::uint64_t key = 0; key < 4; ++key) {
    q.key = key;
    most = std::max(most, judge(q, sums, q, Claim{}).share.worst);
  }
  EXPECT_GT(most, 1);
}

TEST(Usefulness, the_folded_form_exceeds_the_bound_of_the_centred) {
  Claim doubles;
  doubles.accumulator = ScalarType::float64;
  Claim centred, folded;
  centred.accumulator = folded.accumulator = ScalarType::float64;
  folded.form = AffineForm::folded;
  // Where the mean is exact, the centred form does not depend on |mean|/sigma, and the folded one does.
  Problem p = layer(16, Profile::exact_sum);
  p.values[Role::x].clear();
  for (int i = 0; i < 16; ++i) p.values[Role::x].push_back(3000001.0F + static_cast<float>(i % 2 == 0 ? 2 : -2));
  EXPECT_GT(judge(p, centred, p, folded).share.worst, 100);
  EXPECT_LE(judge(p, folded, p, folded).share.worst, 1);
}

// A constant group far from 0: whatever the mean's rounding, two-pass cannot leave |y - beta| <= |gamma|, since the
// same rounding enlarges the variance. δ / sqrt(eps) would allow a hundred times that.
TEST(Usefulness, constant_groups_stay_bounded_by_gamma) {
  Problem p = layer(768, Profile::constant);
  p.gamma = p.beta = false;
  p.eps = 0x1p-40;
  const Inputs inputs = make_inputs(p);
  const Truth truth = forward_truth(p, inputs);
  const Bounds bounds = forward_bounds(p, inputs, truth, {});
  const auto [least, most] = std::minmax_element(bounds.tolerance[Role::y].begin(), bounds.tolerance[Role::y].end());
  EXPECT_GT(*least, 0);
  EXPECT_LE(*most, 1.01);
}

}  // namespace
}  // namespace normgate
