// No false alarm: every emulated kernel stays within the bound that follows from what it claims, on random problems of
// all rows, phases, profiles and conventions.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"
#include "tests/reference/bounds/emulated.hpp"

namespace normgate {
namespace {

using emulated::Draw;

Problem draw_problem(Draw& draw) {
  for (;;) {
    Problem p;
    p.variant = draw.of(
        {Variant::batch_norm, Variant::layer_norm, Variant::group_norm, Variant::instance_norm, Variant::rms_norm});
    p.phase = draw.of({Phase::forward_training, Phase::forward_training, Phase::forward_inference});
    const auto row = row_of(p.variant);
    const auto length = draw.of<std::int64_t>({1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 64, 100, 129, 257});
    switch (p.variant) {
      case Variant::batch_norm:
        p.shape = {(length + 2) / 3, 1, draw.of<std::int64_t>({1, 2}), draw.of<std::int64_t>({1, 3})};
        break;
      case Variant::instance_norm:
        p.shape = {draw.of<std::int64_t>({1, 2, 5}), 1, draw.of<std::int64_t>({1, 2}), length};
        break;
      case Variant::group_norm:
        p.shape = {1, 2, draw.of<std::int64_t>({1, 3}), (length + 2) / 3};
        break;
      default:
        p.shape = {draw.of<std::int64_t>({1, 3}), 1, length, 1};
    }
    p.gamma = !draw.one_in(4);
    p.beta = !draw.one_in(4);
    if (p.phase == Phase::forward_training) {
      p.saved = true;
      p.running = !row.running.empty();
    } else {
      p.given = !row.running.empty() && draw.one_in(2) ? Given::running : Given::saved;
    }
    p.convention.normalizing = draw.of({NormalizingDivisor::n, NormalizingDivisor::n, NormalizingDivisor::n_minus_1});
    p.convention.stored = draw.of({StoredDivisor::n, StoredDivisor::n_minus_1});
    p.convention.single = draw.of({SingleCount::nan, SingleCount::unchanged, SingleCount::zero});
    p.convention.momentum = draw.of({MomentumForm::new_weight, MomentumForm::old_weight, MomentumForm::cumulative,
                                     MomentumForm::accumulated_weight});
    p.convention.eps =
        draw.of({EpsPlacement::inside, EpsPlacement::inside, EpsPlacement::outside, EpsPlacement::floor});
    p.convention.gamma = draw.of({GammaOffset::plain, GammaOffset::plus_one});
    p.convention.saved = draw.of({SavedStatistic::rstd, SavedStatistic::variance});
    p.convention.scalars = draw.of({Scalars::float32, Scalars::float64});
    p.profile =
        draw.of({Profile::conditioned, Profile::exact, Profile::exact_sum, Profile::needle, Profile::special,
                 Profile::near_constant, Profile::constant, Profile::outlier_channels, Profile::parameter_rounding});
    p.kappa = draw.of({0.0, 1.0, 3.0, 30.0, 1e3, 1e5});
    p.scale = draw.of({0, 0, -3, 20, -40, -60, 60});
    p.level = draw.of({1, 3, 7});
    p.step = draw.of<std::int64_t>({1, 2, 1000});
    p.eps = draw.of({0.0, 9.99999974737875163555145263671875e-06, 0x1p-126, 0x1p-60, 1.0, 0x1p60, 0x1p126});
    p.momentum = draw.of({0.0, 1.0, 0.100000001490116119384765625, 0.25, 0x1p-140});
    if (p.profile == Profile::parameter_rounding || p.convention.scalars == Scalars::float64) {
      p.eps = draw.of({1e-5, 1e-12, 0.1});
      p.momentum = draw.of({0.1, 0.9, 0.3});
    }
    // A momentum in double is not among what the emulated kernels do.
    if (p.convention.scalars == Scalars::float64 && p.running) p.momentum = 0.25;
    p.key = draw.bits();
    if (check(p).empty()) return p;
  }
}

// What the profiles do not draw: subnormal data (flushed, or read as 0), data at the end of the range, and given
// statistics that are subnormal, negative or just around -eps.
void disturb(Draw& draw, const Problem& problem, Inputs& inputs) {
  if (draw.one_in(6)) {
    const int by = draw.of({-130, -100, -120, 30, 62});
    for (float& x : inputs[Role::x])
      if (!draw.one_in(4)) x = std::ldexp(x, by);
  }
  if (draw.one_in(6))
    for (const Role role : {Role::gamma, Role::beta})
      for (float& value : inputs[role]) value = std::ldexp(value, draw.of({0, 100, -100, -127, -140}));
  if (problem.phase != Phase::forward_inference || !draw.one_in(4)) return;
  const auto eps = static_cast<float>(problem.eps);
  for (const Role role : {Role::stat, Role::running_var, Role::running_mean, Role::mean})
    for (float& value : inputs[role])
      value = draw.of(
          {value, -value, -eps, std::nextafter(-eps, 0.0F), std::nextafter(-eps, -1e30F), 0x1p-130F, 0.0F, 0x1p100F});
}

// The same of Σ dy y^ over each group, for a cotangent that is random, 1 or along y.
double share_along(Draw& draw, const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim,
                   const Inputs& outputs) {
  const auto& y = truth.out[Role::y];
  std::vector<float> cotangent(y.size());
  const auto kind = draw.below(3);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double random = static_cast<double>(draw.below(1 << 20)) * 0x1p-19 - 1;
    const bool usable = kind == 2 && std::fabs(y[i].hi) < 0x1p60;
    cotangent[i] = static_cast<float>(kind == 0 ? random : usable ? y[i].hi : 1);
  }
  const Bounds bounds = forward_bounds_along(problem, inputs, truth, claim, cotangent);
  const Groups groups(problem.shape, row_of(problem.variant));
  double worst = 0;
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const double bound = bounds.along[static_cast<std::size_t>(q)];
    if (bound == infinity) continue;
    double error = 0, doubt = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const auto at = static_cast<std::size_t>(i);
      const auto c = static_cast<double>(cotangent[at]);
      const double e = minus(static_cast<double>(outputs[Role::y][at]), y[at]);
      error += c * e;
      // What the sum here rounds, and what the truth may be off.
      doubt += std::fabs(c) * (std::fabs(e) * static_cast<double>(groups.size() + 8) * 0x1p-52 + y[at].bound);
    });
    if (error != 0) worst = std::max(worst, std::max(0.0, std::fabs(error) - doubt) / bound);
  }
  return worst;
}

TEST(Soundness, kernels_that_obey_a_claim_stay_within_its_bound) {
  Draw draw(20260101);
  constexpr int problems = 15000;
  constexpr int kernels = 12;
  std::int64_t judged = 0, not_judged = 0;
  double along = 0;
  std::map<std::string, double> worst;
  for (int i = 0; i < problems; ++i) {
    Problem problem = draw_problem(draw);
    Inputs inputs = make_inputs(problem);
    disturb(draw, problem, inputs);
    const Truth truth = forward_truth(problem, inputs);
    for (int k = 0; k < kernels; ++k) {
      const Claim claim = emulated::draw_claim(draw);
      const auto style = emulated::draw_style(draw, claim);
      const Bounds bounds = forward_bounds(problem, inputs, truth, claim);
      const Inputs outputs = emulated::run(problem, inputs, claim, style);
      const auto share = emulated::share_of_bound(problem, inputs, truth, bounds, outputs);
      judged += share.judged;
      not_judged += share.not_judged;
      ASSERT_LE(share.worst, 1) << print(problem) << "\n" << emulated::describe(claim, style) << "\n" << share.where;
      ASSERT_LE(share.gain, 1) << print(problem) << "\n" << emulated::describe(claim, style);
      ASSERT_LE(share.offset, 1) << print(problem) << "\n" << emulated::describe(claim, style);
      along = std::max(along, share_along(draw, problem, inputs, truth, claim, outputs));
      ASSERT_LE(along, 1) << print(problem) << "\n" << emulated::describe(claim, style);
      constexpr std::string_view algorithms[] = {"two-pass", "one-pass", "welford"};
      const auto name = std::string(algorithms[static_cast<std::size_t>(claim.variance)]) +
                        (claim.accumulator == ScalarType::float32 ? " 32" : " 64") +
                        (claim.statistics == ScalarType::float32 ? "/32" : "/64") +
                        (claim.form == AffineForm::centred ? " centred" : " folded");
      worst[name] = std::max({worst[name], share.worst, share.gain, share.offset});
    }
  }
  std::cout << "  worst share along a cotangent: " << along << "\n";
  EXPECT_GT(along, 0.2);
  for (const auto& [name, share] : worst) std::cout << "  worst share, " << name << ": " << share << "\n";
  std::cout << "  judged " << judged << ", not judged " << not_judged << "\n";
  EXPECT_GT(judged, 2 * not_judged) << "too little is judged for the test to mean anything";
  // Bounds that no kernel comes near would hide bugs.
  for (const auto& [name, share] : worst) EXPECT_GT(share, 0.2) << name;
}

}  // namespace
}  // namespace normgate
