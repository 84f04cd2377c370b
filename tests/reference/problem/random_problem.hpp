// Random valid problems for the properties of this folder. A new field of Problem is drawn here too, else the tests of
// the problem line do not see it.
#pragma once

#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference/problem/problem.hpp"

namespace normgate::testing {

template <typename T>
T between(T low, T high) {
  return *rc::gen::inRange<T>(low, static_cast<T>(high + 1));
}

inline bool coin() { return between(0, 1) == 1; }

// Any float but NaN, by its bits: subnormals, infinities and -0 included.
inline float any_float() {
  const float value = std::bit_cast<float>(*rc::gen::arbitrary<std::uint32_t>());
  return std::isnan(value) ? 0.0F : value;
}

inline Convention random_convention() {
  Convention convention;
  convention.normalizing = static_cast<NormalizingDivisor>(between(0, 1));
  convention.stored = static_cast<StoredDivisor>(between(0, 1));
  convention.single = static_cast<SingleCount>(between(0, 2));
  convention.momentum = static_cast<MomentumForm>(between(0, 3));
  convention.eps = static_cast<EpsPlacement>(between(0, 2));
  convention.gamma = static_cast<GammaOffset>(between(0, 1));
  convention.saved = static_cast<SavedStatistic>(between(0, 1));
  convention.gradients = static_cast<Gradients>(between(0, 1));
  convention.scalars = static_cast<Scalars>(between(0, 1));
  return convention;
}

inline Layout random_layout() {
  Layout layout;
  for (std::size_t i = axis_count; i > 1; --i)
    std::swap(layout.order[i - 1], layout.order[between<std::size_t>(0, i - 1)]);
  layout.step = coin() ? 1 : between<std::int64_t>(1, 5);
  layout.pad = coin() ? 0 : between<std::int64_t>(0, 5);
  return layout;
}

// A double from the range, a float32 unless `wide`.
inline double random_scalar(double low, double high, bool wide) {
  const double value = low + (high - low) * (static_cast<double>(between<std::int64_t>(0, 1000003)) / 1000003);
  return wide && coin() ? value : static_cast<double>(static_cast<float>(value));
}

inline Problem random_problem() {
  Problem problem;
  problem.phase = judged_phases[between<std::size_t>(0, judged_phases.size() - 1)];
  problem.variant = static_cast<Variant>(between(1, 5));
  for (std::int64_t& extent : problem.shape) extent = between<std::int64_t>(coin() ? 1 : 0, 6);
  const VariantRow& row = row_of(problem.variant);
  for (std::size_t i = 0; i < role_count; ++i)
    if (coin()) problem.layout[static_cast<Role>(i)] = random_layout();
  problem.gamma = coin();
  problem.beta = coin();
  const bool backward = is_backward(problem.phase);
  const bool twice = problem.phase == Phase::double_backward;
  if (is_statistics(problem.phase) || twice) {
    problem.given = Given::none;
  } else if (is_training(problem.phase)) {
    problem.saved = coin();
    problem.running = !backward && !row.running.empty() && coin();
    problem.from_output = backward && problem.saved && coin();
    if (backward && problem.saved && coin()) problem.handed = Handed::shifted;
  } else {
    problem.given = !row.running.empty() && coin() ? Given::running : Given::saved;
  }
  if (coin() && !is_statistics(problem.phase) && !twice) {
    problem.in_place = true;
    problem.layout[in_place_output(problem.phase)] = problem.layout[in_place_input(problem.phase)];
  }
  if (coin()) problem.convention = random_convention();
  problem.profile = static_cast<Profile>(between(0, 9));
  if (backward) problem.cotangent = static_cast<Cotangent>(between(0, 5));
  // An upstream gradient that was expanded, along axes on which it is constant.
  if (problem.profile != Profile::special && !problem.in_place && coin()) {
    AxisSet& broadcast = problem.layout[Role::dy].broadcast;
    if (problem.cotangent == Cotangent::pooled) broadcast.insert(Axis::s);
    for (const Axis axis : {Axis::n, Axis::g, Axis::k, Axis::s})
      if (problem.cotangent == Cotangent::ones && coin()) broadcast.insert(axis);
  }
  const bool wide = problem.convention.scalars == Scalars::float64 || problem.profile == Profile::parameter_rounding;
  if (coin()) problem.eps = between(0, 3) == 0 ? 0 : random_scalar(0x1p-126, 0.01, wide);
  if (wide && between(0, 3) == 0) problem.eps = 1e-5;  // few digits, and no float32
  if (coin()) problem.momentum = random_scalar(0, 1, wide);
  problem.step = coin() ? 1 : between<std::int64_t>(1, std::numeric_limits<std::int64_t>::max() - 1);
  problem.kappa = coin() ? 1 : random_scalar(0, 1e6, true);
  problem.scale = between(-60, 60);
  problem.level = 2 * between(0, 15) + 1;
  problem.fence = coin() ? Fence::right : Fence::left;
  problem.misalign = between(0, 63);
  problem.skew = between(0, 3);
  problem.threads = between(1, 256);
  problem.key = *rc::gen::arbitrary<std::uint64_t>();
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    if (!use_of(problem, role).read || !problem.layout[role].broadcast.empty() || between(0, 3) != 0) continue;
    const std::int64_t count = element_count(restricted(problem.shape, axes_of(role, row)));
    for (std::int64_t j = 0; j < count; ++j)
      problem.values[role].push_back(role == Role::part_count ? static_cast<float>(between(0, 1 << 24)) : any_float());
    // x̂ = (y - beta)/gamma: gamma as used is not 0.
    if (role == Role::gamma && problem.from_output)
      for (float& value : problem.values[role])
        if (value == 0 || value == -1) value = 2;
  }
  return problem;
}

}  // namespace normgate::testing
