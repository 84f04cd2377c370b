// Other algorithms than the claimed one, known by what only they do, and what is left: described, not explained.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "gate/engine/diagnosis/forward.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace normgate::diagnosis {

void ForwardDiagnosis::folded_form() {
  if (!asked("folded form") || subject_.kernel.claim.form == AffineForm::folded || !subject_.row.centred ||
      !any_[Role::y] || !only_suspected({Role::y}) || truth_.groups.size() != static_cast<std::size_t>(groups_.count()))
    return;
  std::int64_t matched = 0;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
    if (!folded(group)) return;
    groups_.for_each(group, [&](std::int64_t i, const Shape&) {
      matched += suspected(Role::y, static_cast<std::size_t>(i)) ? 1 : 0;
    });
  }
  add(2, "folded form", "the folded form x*a + b with a = gamma/D and b = beta - mean*a",
      "declare `.form = NG_FOLDED` in its claim to be held to that", matched);
}
bool ForwardDiagnosis::folded(std::int64_t group) const {
  struct Element {
    float x, gamma, beta, y;
  };
  std::vector<Element> elements;
  groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
    const auto index = static_cast<std::size_t>(i);
    elements.push_back({inputs_[Role::x][index], static_cast<float>(gamma_at(at)), static_cast<float>(beta_at(at)),
                        outcome_.outputs[Role::y][index]});
  });
  const Statistics truth = truth_of(group);
  const auto all = [&](const auto& y_of) {
    return std::all_of(elements.begin(), elements.end(), [&](const Element& e) { return y_of(e) == e.y; });
  };
  const auto product = [](float a, float b) {
    const volatile float result = a * b;  // not fused with a following sum
    return static_cast<float>(result);
  };
  const auto in_double = [&](const Element& e, float& a, float& b) {
    a = static_cast<float>(truth.factor * static_cast<double>(e.gamma));
    b = static_cast<float>(static_cast<double>(e.beta) - truth.mean * static_cast<double>(a));
  };
  float a = 0;
  float b = 0;
  if (all([&](const Element& e) { return in_double(e, a, b), product(e.x, a) + b; })) return true;
  if (all([&](const Element& e) { return in_double(e, a, b), std::fma(e.x, a, b); })) return true;
  const auto moved = [](double value, int steps) {
    auto result = static_cast<float>(value);
    for (int i = 0; i < std::abs(steps); ++i)
      result = std::nextafter(
          result, steps > 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
    return result;
  };
  const auto with = [&](float mean, float factor) {
    return all([&](const Element& e) {
             const float slope = factor * e.gamma;
             return product(e.x, slope) + (e.beta - product(mean, slope));
           }) ||
           all([&](const Element& e) {
             const float slope = factor * e.gamma;
             return std::fma(e.x, slope, std::fma(-mean, slope, e.beta));
           }) ||
           // Folded before gamma is applied.
           all([&](const Element& e) {
             return product(product(e.x, factor) - product(mean, factor), e.gamma) + e.beta;
           });
  };
  const auto g = static_cast<std::size_t>(group);
  if (written(Role::mean) && written(Role::stat) && problem_.convention.saved == SavedStatistic::rstd &&
      with(outcome_.outputs[Role::mean][g], outcome_.outputs[Role::stat][g]))
    return true;
  // The more elements, the more statistics may be tried before one fits by accident.
  const int steps = elements.size() < 8 ? 1 : elements.size() < 16 ? 6 : 24;
  for (int m = -steps; m <= steps; ++m)
    for (int f = -2 * steps; f <= 2 * steps; ++f)
      if (with(moved(truth.mean, m), moved(truth.factor, f))) return true;
  return false;
}

void ForwardDiagnosis::approximate_root() {
  if (!asked("approximate reciprocal root") || problem_.convention.eps != EpsPlacement::inside ||
      !only_suspected({Role::y, Role::stat, Role::running_mean, Role::running_var}) || !any_[Role::y] ||
      truth_.groups.size() != static_cast<std::size_t>(groups_.count()))
    return;
  const auto newton = [](float value, float estimate, int steps) {
    for (int i = 0; i < steps; ++i) estimate = estimate * (1.5F - 0.5F * value * estimate * estimate);
    return static_cast<double>(estimate);
  };
  const auto try_seed = [&](std::string_view name, const std::function<float(float)>& seed, int most_steps) {
    for (int steps = 0; steps <= most_steps; ++steps) {
      const Fit fit = groups(
          [&](std::int64_t group) {
            Statistics statistics = truth_of(group);
            const auto radicand = static_cast<float>(statistics.variance + problem_.eps);
            statistics.factor = newton(radicand, seed(radicand), steps);
            return statistics;
          },
          true, false);
      if (!fit.explains) continue;
      add(2, "approximate reciprocal root",
          fmt::format("{}, refined by {} steps of Newton's", name, steps == 0 ? "no" : std::to_string(steps)),
          "declare `.rsqrt_ulp` in its claim to be held to that", fit.matched);
      return true;
    }
    return false;
  };
#if defined(__SSE__)
  if (try_seed(
          "the processor's estimate of the reciprocal root",
          [](float value) { return _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(value))); }, 1))
    return;
#endif
  for (const std::uint32_t magic : {0x5F3759DFU, 0x5F375A86U})
    if (try_seed(
            "a reciprocal root estimated from the exponent's bits",
            [&](float value) { return std::bit_cast<float>(magic - (std::bit_cast<std::uint32_t>(value) >> 1U)); }, 3))
      return;
}

std::optional<double> ForwardDiagnosis::gain_of(std::int64_t group, double share) const {
  double along = 0;
  double norm = 0;
  double largest = 0;
  bool finite = true;
  const auto direction = [&](std::int64_t i, const Shape& at) {
    return truth_.out[Role::y][static_cast<std::size_t>(i)].hi - beta_at(at);
  };
  const auto error = [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    return (got(Role::y, index) - truth_.out[Role::y][index].hi) - truth_.out[Role::y][index].lo;
  };
  groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
    finite =
        finite && std::isfinite(error(i)) && std::isfinite(bounds_.tolerance[Role::y][static_cast<std::size_t>(i)]);
    along += error(i) * direction(i, at);
    norm += direction(i, at) * direction(i, at);
    largest = std::max(largest, std::fabs(error(i)));
  });
  if (!finite || !(norm > 0)) return std::nullopt;
  const double gain = along / norm;
  bool all = true;
  std::int64_t moved = 0;
  groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
    const double expected = std::fabs(gain * direction(i, at));
    const double rest = std::fabs(error(i) - gain * direction(i, at));
    const double tolerance = bounds_.tolerance[Role::y][static_cast<std::size_t>(i)];
    moved += expected > tolerance / 4 ? 1 : 0;
    all = all && rest <= share * largest && (expected <= tolerance || rest <= 2 * share * expected);
  });
  // Of few elements anything is a gain.
  if (moved < matched_at_least || !all) return std::nullopt;
  return gain;
}
bool ForwardDiagnosis::any_y_suspected(std::int64_t group) const {
  bool any = false;
  groups_.for_each(group,
                   [&](std::int64_t i, const Shape&) { any = any || suspected(Role::y, static_cast<std::size_t>(i)); });
  return any;
}
bool ForwardDiagnosis::gains_possible() const {
  return any_[Role::y] && groups_.size() >= 4 && beyond_bound_ && problem_.phase == Phase::forward_training &&
         only_suspected({Role::y, Role::stat, Role::running_var}) &&
         truth_.groups.size() == static_cast<std::size_t>(groups_.count());
}
bool ForwardDiagnosis::saved_with(std::int64_t group, double gain) const {
  const auto g = static_cast<std::size_t>(group);
  if (!written(Role::stat)) return true;
  const double truth = truth_.out[Role::stat][g].hi;
  const double wanted = problem_.convention.saved == SavedStatistic::variance
                            ? (truth + problem_.eps) / ((1 + gain) * (1 + gain)) - problem_.eps
                            : truth * (1 + gain);
  if (problem_.convention.saved == SavedStatistic::variance && problem_.convention.eps != EpsPlacement::inside)
    return true;
  return std::fabs(got(Role::stat, g) - wanted) <=
         bounds_.tolerance[Role::stat][g] + std::fabs(got(Role::stat, g) - truth) / 8;
}

void ForwardDiagnosis::one_pass_variance() {
  if (!asked("one-pass variance") || subject_.kernel.claim.variance == VarianceAlgorithm::one_pass ||
      !subject_.row.centred || !only_suspected({Role::y, Role::stat, Role::running_var}) ||
      !(any_[Role::y] || any_[Role::stat]) || problem_.phase != Phase::forward_training ||
      problem_.convention.eps != EpsPlacement::inside ||
      truth_.groups.size() != static_cast<std::size_t>(groups_.count()))
    return;
  const double unit = subject_.kernel.claim.accumulator == ScalarType::float64 ? 0x1p-53 : unit_float32;
  const double n = static_cast<double>(groups_.size());
  bool negative = false;
  std::int64_t matched = 0;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
    const Statistics truth = truth_of(group);
    const double square = truth.mean * truth.mean;
    bool all_nan = true;
    groups_.for_each(group, [&](std::int64_t i, const Shape&) {
      all_nan = all_nan && std::isnan(got(Role::y, static_cast<std::size_t>(i)));
    });
    if (all_nan) {
      if (!(4 * std::sqrt(n) * unit * square >= truth.variance + problem_.eps)) return;
      negative = true;
      if (truth.variance > 0 && groups_.size() >= matched_at_least) matched += groups_.size();
      continue;
    }
    const auto g = static_cast<std::size_t>(group);
    double variance = 0;
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    const double gain = any_[Role::y] && groups_.size() >= matched_at_least ? gain_of(group, 0.5).value_or(none) : none;
    const bool y_wrong = any_y_suspected(group);
    if (written(Role::stat)) {
      const double saved = got(Role::stat, g);
      variance = problem_.convention.saved == SavedStatistic::variance ? saved : 1 / (saved * saved) - problem_.eps;
      // What is wrong with y is wrong with what is saved, or something else is wrong with y.
      if (y_wrong && groups_.size() >= matched_at_least && !saved_with(group, gain)) return;
    } else if (!std::isnan(gain)) {
      const double factor = truth.factor * (1 + gain);
      variance = 1 / (factor * factor) - problem_.eps;
    } else if (groups_.size() >= 2 * matched_at_least) {
      return;
    } else {
      continue;
    }
    const double off = std::fabs(variance - truth.variance);
    const double rounding = unit * (square + truth.variance);
    const double of_the_root = 8 * unit_float32 * (truth.variance + problem_.eps);
    if (!(off <= std::max(8.0, n) * rounding + of_the_root)) return;
    // Around a mean that is no larger than the deviations other roundings are as large, and on constant groups any
    // variance is wrong.
    if (square >= 16 * truth.variance && truth.variance > 0 && off >= rounding / 64) matched += groups_.size();
  }
  add(2, "one-pass variance",
      negative ? "one-pass variance (mean of squares less square of the mean): negative, its root NaN"
               : "one-pass variance (mean of squares less square of the mean)",
      "declare `.variance = NG_ONE_PASS` in its claim to be held to that", matched);
}

void ForwardDiagnosis::sequential_sums() {
  Claim claim = subject_.kernel.claim;
  if (!asked("sequential sums in groups") || claim.group_sum.order == SumOrder::sequential) return;
  claim.group_sum = {};
  if (covered_by(claim))
    add(4, "sequential sums in groups",
        "errors within the bound of sums of a group one term after the other, which the claim does not say");
}

void ForwardDiagnosis::gain_per_group() {
  if (!asked("gain per group") || !gains_possible()) return;
  double least = infinity;
  double most = -infinity;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
    const std::optional<double> gain = gain_of(group, 1.0 / 8);
    if (!gain || !saved_with(group, *gain)) return;
    least = std::min(least, *gain);
    most = std::max(most, *gain);
  }
  if (!(least <= most)) return;
  const std::string range =
      least == most ? fmt::format("1{:+.2g}", least) : fmt::format("1{:+.2g} to 1{:+.2g}, by group", least, most);
  add(3, "gain per group",
      fmt::format("a gain of {}: {}", range,
                  subject_.row.centred ? "the mean is right, the variance or its reciprocal root is not"
                                       : "the mean square or its reciprocal root is wrong"));
}

}  // namespace normgate::diagnosis
