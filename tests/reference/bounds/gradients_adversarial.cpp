// Inputs that are chosen against the gradients' bounds: cotangents in the null space, terms that cancel, near-constant
// groups, statistics far from the data, numbers at the ends of the range, and a search uphill, which changes one number
// and keeps what uses more of the bound.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "reference/bounds/rounding.hpp"
#include "tests/reference/bounds/gradients.hpp"

namespace normgate {
namespace {

using emulated::Draw;
using emulated::GradientStyle;

struct Trial {
  Problem problem;
  SavedUse use = SavedUse::recomputes;
  Claim claim;
  GradientStyle style;
};

// The largest share of the bound, of one role or of all.
double worst(const Trial& trial, const Inputs& inputs, Role role, std::string* what = nullptr) {
  const Truth truth = backward_truth(trial.problem, inputs, trial.use);
  const Bounds bounds = backward_bounds(trial.problem, inputs, truth, trial.use, trial.claim);
  const Inputs outputs = run_gradients(trial.problem, inputs, trial.use, trial.claim, trial.style);
  const auto all = emulated::share_of_bound(trial.problem, inputs, truth, bounds, outputs);
  if (what != nullptr) {
    *what = print(trial.problem) + "\n" + describe(trial.style, trial.claim, trial.use) + "\n" + all.where;
    for (const Role r : {Role::x, Role::y, Role::dy, Role::gamma, Role::beta, Role::mean, Role::stat}) {
      *what += "\n" + std::string(name_of(r)) + ":";
      for (const float value : inputs[r]) *what += " " + shortest(static_cast<double>(value));
    }
  }
  if (all.worst > 1) return all.worst;
  double share = 0;
  for (std::size_t i = 0; i < bounds.tolerance[role].size(); ++i) {
    const double tolerance = bounds.tolerance[role][i];
    const Exact& exact = truth.out[role][i];
    const double error = distance(static_cast<double>(outputs[role][i]), exact);
    if (tolerance < infinity && error > 0) share = std::max(share, error / (tolerance + exact.bound));
  }
  return share;
}

Trial draw_trial(Draw& draw, std::int64_t n) {
  Trial trial;
  Problem& p = trial.problem;
  p.phase = Phase::backward_training;
  p.variant = draw.of({Variant::layer_norm, Variant::layer_norm, Variant::batch_norm, Variant::rms_norm});
  p.shape = p.variant == Variant::batch_norm ? Shape{n, 1, 1, 1} : Shape{1, 1, n, 1};
  p.gamma = draw.one_in(2);
  p.beta = false;
  trial.use = draw.of({SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes, SavedUse::from_output});
  p.saved = trial.use != SavedUse::recomputes;
  p.from_output = trial.use == SavedUse::from_output;
  p.convention.saved = draw.of({SavedStatistic::rstd, SavedStatistic::variance});
  p.convention.eps = draw.of({EpsPlacement::inside, EpsPlacement::inside, EpsPlacement::outside, EpsPlacement::floor});
  p.convention.normalizing = draw.of({NormalizingDivisor::n, NormalizingDivisor::n, NormalizingDivisor::n_minus_1});
  p.convention.gamma = draw.of({GammaOffset::plain, GammaOffset::plain, GammaOffset::plus_one});
  p.eps = draw.of({0x1p-126, 0x1p-40, 0x1p-17, 1.0});
  p.kappa = draw.of({0.0, 1.0, 100.0, 3e4});
  p.profile = draw.of({Profile::conditioned, Profile::near_constant, Profile::constant});
  p.cotangent = draw.of({Cotangent::random, Cotangent::ones, Cotangent::normalized, Cotangent::mixed});
  p.key = draw.bits();
  trial.claim = emulated::draw_claim(draw);
  trial.style = emulated::draw_gradient_style(draw, trial.claim);
  return trial;
}

// One number a few units, or altogether, elsewhere.
void change(Draw& draw, Inputs& inputs) {
  std::vector<float*> all;
  for (const Role role : {Role::x, Role::y, Role::dy, Role::gamma, Role::mean, Role::stat})
    for (float& value : inputs[role]) all.push_back(&value);
  float& value = *all[draw.below(all.size())];
  if (draw.one_in(8)) {
    value = std::ldexp(value, draw.of({-1, 1, -3, 3}));
  } else if (draw.one_in(8)) {
    value *= 1 + static_cast<float>(draw.below(1U << 20U)) * 0x1p-20F;
  } else {
    const float towards = draw.one_in(2) ? 1e30F : -1e30F;
    for (std::uint64_t step = 1 + draw.below(4); step > 0; --step) value = std::nextafter(value, towards);
  }
}

TEST(GradientAdversarial, search_uphill_stays_within_the_bound) {
  Draw draw(11);
  double found_dx = 0, found_dgamma = 0;
  for (int start = 0; start < 240; ++start) {
    const Trial trial = draw_trial(draw, draw.of<std::int64_t>({1, 2, 3, 5, 12}));
    const Role role = trial.problem.gamma && draw.one_in(3) ? Role::dgamma : Role::dx;
    Inputs inputs = make_inputs(trial.problem);
    double best = worst(trial, inputs, role);
    for (int step = 0; step < 250; ++step) {
      Inputs next = inputs;
      change(draw, next);
      const double share = worst(trial, next, role);
      if (share > 1) {
        std::string what;
        worst(trial, next, role, &what);
        FAIL() << share << "\n" << what;
      }
      if (share < best) continue;
      best = share;
      inputs = std::move(next);
    }
    (role == Role::dx ? found_dx : found_dgamma) = std::max(role == Role::dx ? found_dx : found_dgamma, best);
  }
  std::cout << "  found: dx " << found_dx << ", dgamma " << found_dgamma << "\n";
  EXPECT_GT(found_dx, 0.5) << "the search finds nothing: the bounds are loose, or the search is";
  EXPECT_GT(found_dgamma, 0.5);
}

// Sums whose additions all round the same way, and cotangents that the operator annihilates, over numbers of all sizes.
TEST(GradientAdversarial, sums_that_all_round_one_way) {
  Draw draw(12);
  for (const int n : {1, 2, 3, 5, 16, 100, 768})
    for (const float tiny : {0x1.fffffep-25F, 0x1.000002p-24F, 0x1p-24F})
      for (int k = 0; k < 30; ++k) {
        Trial trial = draw_trial(draw, n);
        Inputs inputs = make_inputs(trial.problem);
        for (std::size_t i = 0; i < inputs[Role::dy].size(); ++i) inputs[Role::dy][i] = i == 0 ? 1.0F : tiny;
        for (float& gamma : inputs[Role::gamma]) gamma = draw.of({1.0F, 1.0F, -1.0F, 0x1.000002p0F});
        std::string what;
        ASSERT_LE(worst(trial, inputs, Role::dx, &what), 1) << what;
      }
}

TEST(GradientAdversarial, ranges_of_magnitude) {
  Draw draw(13);
  for (int k = 0; k < 6000; ++k) {
    Trial trial = draw_trial(draw, draw.of<std::int64_t>({1, 2, 3, 4, 5, 9}));
    Inputs inputs = make_inputs(trial.problem);
    const auto spread = draw.of({10, 40, 80, 130});
    const auto power = [&] { return static_cast<int>(draw.below(static_cast<std::uint64_t>(2 * spread))) - spread; };
    for (const Role role : {Role::x, Role::y, Role::dy, Role::gamma, Role::mean, Role::stat}) {
      if (!draw.one_in(3)) continue;
      const int common = power();
      const bool each = draw.one_in(3);
      for (float& value : inputs[role]) {
        value = std::ldexp(value, each ? power() : common);
        if (!std::isfinite(value)) value = 1;
      }
    }
    std::string what;
    ASSERT_LE(worst(trial, inputs, Role::dx, &what), 1) << what;
  }
}

TEST(GradientAdversarial, statistics_far_from_the_data) {
  Draw draw(14);
  for (int k = 0; k < 6000; ++k) {
    Trial trial = draw_trial(draw, draw.of<std::int64_t>({1, 2, 3, 4, 5, 17}));
    if (!trial.problem.saved) continue;
    Inputs inputs = make_inputs(trial.problem);
    for (float& mean : inputs[Role::mean])
      mean = draw.of({0.0F, -mean, mean * 1000, std::nextafter(mean, 1e30F), mean + 1, 0x1p100F, -0x1p-130F});
    for (float& stat : inputs[Role::stat])
      stat = draw.of({stat, stat * 3, stat * 0.001F, 1.0F, static_cast<float>(1 / std::sqrt(trial.problem.eps)),
                      static_cast<float>(1 / trial.problem.eps), static_cast<float>(trial.problem.eps)});
    std::string what;
    ASSERT_LE(worst(trial, inputs, Role::dx, &what), 1) << what;
  }
}

}  // namespace
}  // namespace normgate
