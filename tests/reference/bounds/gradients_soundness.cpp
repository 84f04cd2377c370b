// No false alarm in the backward phases: every emulated kernel stays within the bound of the function that it computes,
// on random problems of all rows, uses, profiles, cotangents and conventions.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"
#include "tests/reference/bounds/gradients.hpp"

namespace normgate {
namespace {

using emulated::Draw;

Problem draw_problem(Draw& draw) {
  for (;;) {
    Problem p;
    p.variant = draw.of(
        {Variant::batch_norm, Variant::layer_norm, Variant::group_norm, Variant::instance_norm, Variant::rms_norm});
    p.phase = draw.of(
        {Phase::backward_training, Phase::backward_training, Phase::backward_training, Phase::backward_inference});
    const auto row = row_of(p.variant);
    const auto length = draw.of<std::int64_t>({1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 64, 100, 129});
    switch (p.variant) {
      case Variant::batch_norm:
        p.shape = {(length + 2) / 3, 1, draw.of<std::int64_t>({1, 2}), draw.of<std::int64_t>({1, 3})};
        break;
      case Variant::instance_norm:
        p.shape = {draw.of<std::int64_t>({1, 2, 5}), 1, draw.of<std::int64_t>({1, 2}), length};
        break;
      case Variant::group_norm:
        p.shape = {draw.of<std::int64_t>({1, 3}), 2, draw.of<std::int64_t>({1, 3}), (length + 2) / 3};
        break;
      default:
        p.shape = {draw.of<std::int64_t>({1, 3, 20}), 1, length, 1};
    }
    p.gamma = !draw.one_in(4);
    p.beta = !draw.one_in(4);
    if (p.phase == Phase::backward_training) {
      p.saved = !draw.one_in(3);
      p.from_output = p.saved && draw.one_in(4);
      p.handed = p.saved && draw.one_in(3) ? Handed::shifted : Handed::nearest;
    } else {
      p.given = !row.running.empty() && draw.one_in(2) ? Given::running : Given::saved;
    }
    p.cotangent = draw.of({Cotangent::random, Cotangent::random, Cotangent::ones, Cotangent::pooled,
                           Cotangent::normalized, Cotangent::mixed, Cotangent::unit});
    p.convention.normalizing = draw.of({NormalizingDivisor::n, NormalizingDivisor::n, NormalizingDivisor::n_minus_1});
    p.convention.single = draw.of({SingleCount::nan, SingleCount::unchanged, SingleCount::zero});
    p.convention.momentum = draw.of({MomentumForm::new_weight, MomentumForm::accumulated_weight});
    p.convention.eps =
        draw.of({EpsPlacement::inside, EpsPlacement::inside, EpsPlacement::outside, EpsPlacement::floor});
    p.convention.gamma = draw.of({GammaOffset::plain, GammaOffset::plus_one});
    p.convention.saved = draw.of({SavedStatistic::rstd, SavedStatistic::variance});
    p.convention.scalars = draw.of({Scalars::float32, Scalars::float64});
    p.convention.gradients = draw.of({Gradients::overwrite, Gradients::accumulate});
    p.profile = draw.of({Profile::conditioned, Profile::exact, Profile::exact_sum, Profile::needle, Profile::special,
                         Profile::near_constant, Profile::constant, Profile::outlier_channels,
                         Profile::parameter_rounding, Profile::drift});
    p.kappa = draw.of({0.0, 1.0, 3.0, 30.0, 1e3, 1e5});
    p.scale = draw.of({0, 0, -3, 20, -20, -40, -60, 60});
    p.level = draw.of({1, 3, 7});
    p.eps = draw.of({0.0, 9.99999974737875163555145263671875e-06, 0x1p-126, 0x1p-60, 1.0, 0x1p60, 0x1p126});
    if (p.profile == Profile::parameter_rounding || p.convention.scalars == Scalars::float64)
      p.eps = draw.of({1e-5, 1e-12, 0.1});
    p.key = draw.bits();
    if (check(p).empty()) return p;
  }
}

// What the profiles do not draw: subnormal and huge data, and handed statistics that are subnormal, negative or around
// -eps.
void disturb(Draw& draw, const Problem& problem, Inputs& inputs) {
  if (draw.one_in(6)) {
    const int by = draw.of({-130, -100, -120, 30, 62});
    for (float& x : inputs[Role::x])
      if (!draw.one_in(4)) x = std::ldexp(x, by);
  }
  if (draw.one_in(6)) {
    const int by = draw.of({-130, -100, -120, 30, 62, 100});
    for (float& x : inputs[Role::dy])
      if (!draw.one_in(4)) x = std::ldexp(x, by);
  }
  if (draw.one_in(6))
    for (const Role role : {Role::gamma, Role::beta, Role::dgamma, Role::dbeta})
      for (float& value : inputs[role]) value = std::ldexp(value, draw.of({0, 10, 100, -20, -100, -127, -140}));
  if (!draw.one_in(5)) return;
  const auto eps = static_cast<float>(problem.eps);
  for (const Role role : {Role::stat, Role::running_var, Role::running_mean, Role::mean})
    for (float& value : inputs[role])
      value = draw.of({value, value, -value, -eps, eps, std::nextafter(eps, 2.0F), std::nextafter(-eps, 0.0F),
                       0x1p-130F, 0.0F, 0x1p100F, value * 1.0001F});
}

// The numbers of a small problem.
std::string dump(const Inputs& inputs) {
  std::string text;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto& values = inputs[static_cast<Role>(r)];
    if (values.empty() || values.size() > 40) continue;
    text += "\n" + std::string(name_of(static_cast<Role>(r))) + ":";
    for (const float value : values) text += " " + shortest(static_cast<double>(value));
  }
  return text;
}

TEST(GradientSoundness, kernels_that_obey_a_claim_stay_within_its_bound) {
  Draw draw(20260303);
#if defined(NORMGATE_SANITIZED)
  constexpr int problems = 3000;  // instrumented code is an order of magnitude slower
#else
  constexpr int problems = 12000;
#endif
  constexpr int kernels = 16;
  std::int64_t judged = 0, not_judged = 0;
  std::map<std::string, double> worst;
  for (int i = 0; i < problems; ++i) {
    Problem problem = draw_problem(draw);
    Inputs inputs = make_inputs(problem);
    disturb(draw, problem, inputs);
    const bool handed = problem.phase == Phase::backward_training && problem.saved;
    const SavedUse use = problem.from_output ? SavedUse::from_output
                         : handed            ? draw.of({SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes})
                                             : SavedUse::recomputes;
    const Truth truth = backward_truth(problem, inputs, use);
    for (int k = 0; k < kernels; ++k) {
      const Claim claim = emulated::draw_claim(draw);
      const auto style = emulated::draw_gradient_style(draw, claim);
      const Bounds bounds = backward_bounds(problem, inputs, truth, use, claim);
      const Inputs outputs = emulated::run_gradients(problem, inputs, use, claim, style);
      const auto share = emulated::share_of_bound(problem, inputs, truth, bounds, outputs);
      judged += share.judged;
      not_judged += share.not_judged;
      ASSERT_LE(share.worst, 1) << print(problem) << "\n"
                                << describe(style, claim, use) << "\n"
                                << share.where << dump(inputs);
      constexpr std::string_view uses[] = {"", "short", "textbook", "recomputes", "from output"};
      const auto name =
          (problem.phase == Phase::backward_inference ? std::string("inference")
                                                      : std::string(uses[static_cast<std::size_t>(use)])) +
          (claim.accumulator == ScalarType::float32 ? " 32" : " 64") +
          (claim.statistics == ScalarType::float32 ? "/32" : "/64") +
          (claim.form == AffineForm::centred ? " centred" : " folded");
      worst[name] = std::max(worst[name], share.worst);
    }
  }
  for (const auto& [name, share] : worst) std::cout << "  worst share, " << name << ": " << share << "\n";
  std::cout << "  judged " << judged << ", not judged " << not_judged << "\n";
  EXPECT_GT(judged, not_judged) << "too little is judged for the test to mean anything";
  for (const auto& [name, share] : worst) EXPECT_GT(share, 0.2) << name;
}

}  // namespace
}  // namespace normgate
