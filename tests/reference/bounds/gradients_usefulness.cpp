// The gradients' bounds would be worthless if they let bugs through: kernels that break a formula exceed them, sound
// ones use a fair part of them, and exact data leave nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "reference/bounds/rounding.hpp"
#include "tests/reference/bounds/gradients.hpp"

namespace normgate {
namespace {

using emulated::Association;
using emulated::Bug;
using emulated::Draw;
using emulated::GradientStyle;
using emulated::run_gradients;

struct Case {
  Problem problem;
  SavedUse use = SavedUse::recomputes;
  Inputs inputs;
  Truth truth;
};
Case make(const Problem& problem, SavedUse use) {
  Case c{problem, use, make_inputs(problem), {}};
  c.truth = backward_truth(problem, c.inputs, use);
  return c;
}

// Largest share of the bound among elements of one role; 0 where nothing is judged.
double share_of(const Case& c, const Bounds& bounds, const Inputs& outputs, Role role) {
  double worst = 0;
  for (std::size_t i = 0; i < c.truth.out[role].size(); ++i) {
    const double tolerance = bounds.tolerance[role][i];
    if (tolerance == infinity) continue;
    const Exact& exact = c.truth.out[role][i];
    const double error = distance(static_cast<double>(outputs[role][i]), exact);
    if (error > 0) worst = std::max(worst, error / (tolerance + exact.bound));
  }
  return worst;
}

Problem layer(std::int64_t rows, std::int64_t n, double kappa) {
  Problem p;
  p.phase = Phase::backward_training;
  p.shape = {rows, 1, n, 1};
  p.kappa = kappa;
  p.key = 0x5eed;
  return p;
}

Claim lanes() {
  Claim claim;
  claim.group_sum = claim.across_groups = {SumOrder::pairwise, 8, 64};
  return claim;
}

struct Shares {
  double dx = 0;
  double dgamma = 0;
  double row_ulps = 0;  // of the bound of dx, at its largest
};

// Sound kernels in many styles, over some keys.
Shares sound(Problem p, SavedUse use, const Claim& claim) {
  Shares result;
  Draw draw(1);
  for (std::uint64_t key = 1; key <= 2; ++key) {
    p.key = key;
    const Case c = make(p, use);
    const Bounds bounds = backward_bounds(p, c.inputs, c.truth, use, claim);
    for (std::size_t i = 0; i < bounds.tolerance[Role::dx].size(); ++i)
      result.row_ulps =
          std::max(result.row_ulps, bounds.tolerance[Role::dx][i] / ulp_float32(bounds.scale[Role::dx][i]));
    for (int k = 0; k < 20; ++k) {
      const auto style = emulated::draw_gradient_style(draw, claim);
      const Inputs outputs = run_gradients(p, c.inputs, use, claim, style);
      result.dx = std::max(result.dx, share_of(c, bounds, outputs, Role::dx));
      result.dgamma = std::max(result.dgamma, share_of(c, bounds, outputs, Role::dgamma));
    }
  }
  return result;
}

TEST(GradientUsefulness, sound_kernels_use_a_fair_part_of_a_bound_of_some_ulps) {
  for (const std::int64_t n : {5, 16, 256, 4096})
    for (const double kappa : {0.0, 3.0, 1000.0})
      for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes}) {
        Problem p = layer(n > 1000 ? 4 : 16, n, kappa);
        p.saved = use != SavedUse::recomputes;
        const Shares s = sound(p, use, lanes());
        std::cout << "  n " << n << ", kappa " << kappa << ", use " << static_cast<int>(use) << ": dx " << s.dx
                  << ", dgamma " << s.dgamma << " of the bound, which is " << s.row_ulps << " row ulp\n";
        EXPECT_LE(std::max(s.dx, s.dgamma), 1);
        EXPECT_GT(s.dx, 0.05) << n << " " << kappa;
        EXPECT_GT(s.dgamma, 0.03) << n << " " << kappa;
        if (use == SavedUse::short_form) {
          // Some ten roundings of the row's scale, which stands anywhere in its binade.
          EXPECT_LE(s.row_ulps, 20) << n << " " << kappa;
        }
      }
}

// The least share that a bug has on an ordinary problem, of any of its outputs.
double caught(Problem p, SavedUse use, const Claim& claim, Bug bug) {
  double least = infinity;
  for (std::uint64_t key = 1; key <= 4; ++key) {
    p.key = key;
    const Case c = make(p, use);
    const Bounds bounds = backward_bounds(p, c.inputs, c.truth, use, claim);
    GradientStyle style;
    style.bug = bug;
    const Inputs outputs = run_gradients(p, c.inputs, use, claim, style);
    least =
        std::min(least, std::max(share_of(c, bounds, outputs, Role::dx), share_of(c, bounds, outputs, Role::dgamma)));
  }
  return least;
}

TEST(GradientUsefulness, wrong_formulas_exceed_the_bound_by_far) {
  struct Wrong {
    Bug bug;
    double at_least;  // at 256 elements
    std::string_view name;
  };
  constexpr Wrong wrongs[] = {{Bug::no_hat_term, 1000, "no hat term"},
                              {Bug::no_mean_term, 1000, "no mean term"},
                              {Bug::hat_term_over_n_minus_1, 5, "hat term over n-1"},
                              {Bug::dgamma_from_x, 1000, "dgamma from x"},
                              {Bug::dgamma_with_gamma, 1000, "dgamma times gamma"},
                              {Bug::gamma_ignored, 1000, "gamma ignored"},
                              {Bug::sum_over_all_but_the_last, 100, "last element lost in the sums"},
                              {Bug::eps_in_hat_term, 100, "eps in the hat term"},
                              {Bug::inference, 1000, "inference"}};
  for (const Wrong& wrong : wrongs)
    for (const auto variant : {Variant::layer_norm, Variant::batch_norm, Variant::rms_norm})
      for (const std::int64_t n : {4, 16, 256})
        for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes}) {
          const bool rms = variant == Variant::rms_norm;
          if (rms && (wrong.bug == Bug::no_mean_term || wrong.bug == Bug::dgamma_from_x || use == SavedUse::textbook))
            continue;
          if (wrong.bug == Bug::eps_in_hat_term && use != SavedUse::recomputes) continue;  // needs the variance
          Problem p = layer(3, n, 3);
          p.variant = variant;
          if (variant == Variant::batch_norm) p.shape = {n, 1, 3, 1};
          if (n > 8 && wrong.bug == Bug::sum_over_all_but_the_last) p.gamma = false;  // there are zeros among gammas
          p.eps = 0.125;
          p.saved = use != SavedUse::recomputes;
          const double share = caught(p, use, lanes(), wrong.bug);
          EXPECT_GT(share, wrong.at_least) << wrong.name << ", " << print(p) << ", use " << static_cast<int>(use);
        }
}

TEST(GradientUsefulness, float_sums_exceed_the_bound_of_double_sums) {
  Claim doubles;
  doubles.accumulator = doubles.statistics = ScalarType::float64;
  Problem p = layer(4, 768, 3);
  p.saved = true;
  const Case c = make(p, SavedUse::short_form);
  const Bounds bounds = backward_bounds(p, c.inputs, c.truth, SavedUse::short_form, doubles);
  EXPECT_GT(share_of(c, bounds, run_gradients(p, c.inputs, c.use, Claim{}, {}), Role::dx), 2);
  EXPECT_LE(share_of(c, bounds, run_gradients(p, c.inputs, c.use, doubles, {}), Role::dx), 1);
}

// The terms of one group after the other may go into one total only where the sum over groups is sequential.
TEST(GradientUsefulness, a_total_of_all_terms_is_inside_where_groups_are_added_in_sequence) {
  Problem p;
  p.phase = Phase::backward_training;
  p.variant = Variant::instance_norm;
  p.shape = {64, 1, 1, 64};
  p.saved = true;
  p.cotangent = Cotangent::ones;
  Claim claim = lanes();
  claim.across_groups = {};
  GradientStyle style;
  style.running_total = true;
  const Case c = make(p, SavedUse::short_form);
  const Bounds sequential = backward_bounds(p, c.inputs, c.truth, c.use, claim);
  const Inputs outputs = run_gradients(p, c.inputs, c.use, claim, style);
  EXPECT_LE(share_of(c, sequential, outputs, Role::dgamma), 1);
  EXPECT_GT(sequential.tolerance[Role::dgamma][0],
            10 * backward_bounds(p, c.inputs, c.truth, c.use, lanes()).tolerance[Role::dgamma][0]);
}

Problem exact_problem(Variant variant, std::int64_t n, std::int32_t level, std::uint64_t key) {
  Problem p;
  p.phase = Phase::backward_training;
  p.variant = variant;
  p.shape = {2, 1, n, 1};
  if (variant == Variant::batch_norm) p.shape = {n, 1, 3, 1};
  if (variant == Variant::instance_norm) p.shape = {2, 1, 3, n};
  if (variant == Variant::group_norm) p.shape = {2, 2, 2, n / 2};
  p.saved = true;
  p.profile = Profile::exact;
  p.level = level;
  p.eps = *exact_eps(p.convention, level);
  p.key = key;
  return p;
}

// x = c ± level, r handed and a power of two: whatever the order, there is nothing to round, and the kernels prove it.
TEST(GradientUsefulness, exact_data_leave_no_tolerance) {
  Draw draw(7);
  for (const auto variant :
       {Variant::layer_norm, Variant::batch_norm, Variant::rms_norm, Variant::instance_norm, Variant::group_norm})
    for (const std::int64_t n : {2, 16, 256, 16384})
      for (const std::int32_t level : {1, 3})
        for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook}) {
          const Problem p = exact_problem(variant, n, level, draw.bits());
          const Case c = make(p, use);
          for (int k = 0; k < (n > 1000 ? 4 : 40); ++k) {
            Claim claim = emulated::draw_claim(draw);
            const Bounds bounds = backward_bounds(p, c.inputs, c.truth, use, claim);
            const auto style = emulated::draw_gradient_style(draw, claim);
            const Inputs outputs = run_gradients(p, c.inputs, use, claim, style);
            for (const Role role : {Role::dx, Role::dgamma, Role::dbeta})
              for (std::size_t i = 0; i < bounds.tolerance[role].size(); ++i) {
                ASSERT_EQ(bounds.tolerance[role][i], 0) << print(p) << "\n" << describe(style, claim, use);
                ASSERT_EQ(distance(static_cast<double>(outputs[role][i]), c.truth.out[role][i]), 0)
                    << print(p) << "\n"
                    << describe(style, claim, use);
              }
          }
          GradientStyle wrong;
          wrong.bug = Bug::hat_term_over_n_minus_1;
          const Claim claim;
          const Bounds bounds = backward_bounds(p, c.inputs, c.truth, use, claim);
          EXPECT_GT(share_of(c, bounds, run_gradients(p, c.inputs, use, claim, wrong), Role::dx), 1e6) << print(p);
        }
}

// Where n is no power of two a kernel that divides still has nothing to round in dgamma, dbeta and the sums, and dx is
// off by a few roundings; a depth does not come in.
TEST(GradientUsefulness, exact_sums_leave_a_few_roundings) {
  Claim claim;
  claim.divides_by_n = true;
  for (const std::int64_t n : {6, 1000, 12000}) {
    const Problem p = exact_problem(Variant::batch_norm, n, 3, 5);
    const Case c = make(p, SavedUse::short_form);
    const Bounds bounds = backward_bounds(p, c.inputs, c.truth, c.use, claim);
    for (const double tolerance : bounds.tolerance[Role::dgamma]) EXPECT_EQ(tolerance, 0);
    for (std::size_t i = 0; i < bounds.tolerance[Role::dx].size(); ++i)
      EXPECT_LE(bounds.tolerance[Role::dx][i], 7 * ulp_float32(bounds.scale[Role::dx][i])) << n;
  }
}

// A constant group far from 0: r is large and the mean rounded, yet the x̂ term cannot exceed the others.
TEST(GradientUsefulness, constant_groups_stay_bounded) {
  Problem p = layer(2, 768, 1);
  p.profile = Profile::constant;
  p.eps = 0x1p-20;
  const Case c = make(p, SavedUse::recomputes);
  const Bounds bounds = backward_bounds(p, c.inputs, c.truth, c.use, lanes());
  for (std::size_t i = 0; i < bounds.tolerance[Role::dx].size(); ++i)
    EXPECT_LE(bounds.tolerance[Role::dx][i], 3 * bounds.scale[Role::dx][i]);
}

TEST(GradientUsefulness, kinks_are_not_judged) {
  Problem p = layer(1, 4, 0);
  p.gamma = p.beta = false;
  p.values[Role::x] = {1, 1, -1, -1};  // v = 1
  p.convention.eps = EpsPlacement::floor;
  for (const double eps : {0.5, 1.0, 2.0}) {
    p.eps = eps;
    const Case c = make(p, SavedUse::recomputes);
    const Bounds bounds = backward_bounds(p, c.inputs, c.truth, c.use, {});
    EXPECT_EQ(std::isinf(bounds.tolerance[Role::dx][0]), eps == 1.0) << eps;
  }
  p.convention.eps = EpsPlacement::outside;
  p.eps = 1;
  p.saved = true;
  const Case good = make(p, SavedUse::short_form);
  EXPECT_LT(backward_bounds(p, good.inputs, good.truth, good.use, {}).tolerance[Role::dx][0], 1e-5);
  p.values[Role::x] = {0x1p-30F, 0x1p-30F, -0x1p-30F, -0x1p-30F};  // 1/r - eps has no digits left
  const Case lost = make(p, SavedUse::short_form);
  EXPECT_EQ(backward_bounds(p, lost.inputs, lost.truth, lost.use, {}).tolerance[Role::dx][0], infinity);
}

TEST(GradientUsefulness, scales_are_those_of_the_largest_term) {
  Problem p = layer(1, 2, 0);
  p.gamma = p.beta = false;
  p.values[Role::x] = {3, 5};
  p.values[Role::dy] = {1, -2};
  p.eps = 0;
  const Case c = make(p, SavedUse::recomputes);
  const Bounds bounds = backward_bounds(p, c.inputs, c.truth, c.use, {});
  EXPECT_NEAR(bounds.scale[Role::dx][0], 1 * (2 + 1 * 1.5), 1e-6);  // r (max|g| + max|x̂| |mean(g x̂)|)
}

// Where nothing of a group is a number, nothing is judged but what does not depend on it.
TEST(GradientUsefulness, special_values_are_judged_by_what_depends_on_them) {
  Problem p = layer(3, 4, 0);
  p.gamma = p.beta = true;
  Inputs inputs = make_inputs(p);
  inputs[Role::x][5] = std::nanf("");
  const Truth truth = backward_truth(p, inputs, SavedUse::recomputes);
  const Bounds bounds = backward_bounds(p, inputs, truth, SavedUse::recomputes, {});
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(std::isinf(bounds.tolerance[Role::dx][i]), i / 4 == 1) << i;
  for (const double tolerance : bounds.tolerance[Role::dgamma]) EXPECT_EQ(tolerance, infinity);
  for (const double tolerance : bounds.tolerance[Role::dbeta]) EXPECT_LT(tolerance, 1);
  // One value under n-1 is 0/0: NaN is demanded.
  Problem single = layer(2, 1, 0);
  single.convention.normalizing = NormalizingDivisor::n_minus_1;
  const Case c = make(single, SavedUse::recomputes);
  const Bounds demanded = backward_bounds(single, c.inputs, c.truth, c.use, {});
  EXPECT_TRUE(std::isnan(c.truth.out[Role::dx][0].hi));
  EXPECT_EQ(demanded.tolerance[Role::dx][0], 0);
  EXPECT_EQ(demanded.tolerance[Role::dgamma][0], 0);
  EXPECT_LT(demanded.tolerance[Role::dbeta][0], 1);
}

}  // namespace
}  // namespace normgate
