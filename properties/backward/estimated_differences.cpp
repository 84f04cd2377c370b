// f = Σ dy y^ over all elements, as a function of one element of x, gamma or beta; nothing is known of which outputs
// depend on which inputs. At steps h = 2^k rms of the tensor's deviations
//
//   noise       8 ε 18/12 / h, with ε the noise of f by a difference table (ECnoise, Moré & Wild 2011, SIAM J. Sci.
//               Comput. 33): of nine values at spacing δ the k-th differences of a smooth function vanish like δ^k
//               while those of noise have a mean square of ε² (2k)!/(k!)². The first k from which three estimates agree
//               within a factor of four counts; the largest over some elements, and at least the rounding of the
//               largest term.
//   truncation  16/15 |D4(h) - D4(h/2)|: an error of order 4 falls to a sixteenth from one to the other
//   own         the same relative noise in what the backward gives, and its rounding: 8 ε / sqrt(Σ (dy y^)²) + 2^-22 of
//               the gradient's largest element
//
// The step minimizes truncation plus noise. An element is judged where the sum of the three is below 1 % of the scale,
// the largest of |gradient|, |D4| and the root mean square of the gradient. That is an estimate: a finding is evidence,
// and says "estimated".
#include "properties/backward/estimated_differences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "reference/bounds/rounding.hpp"

namespace normgate {
namespace {

constexpr int first_step = -7;  // h = 2^first_step of the unit …
constexpr int steps = 9;        // … to 2^(first_step + steps - 1); f is taken at twice the last, too
constexpr std::size_t all_up_to = 48;
constexpr std::size_t table_size = 9;

double root_mean_square(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

// Of values at equal distances, none for values that are no smooth function with noise at this spacing.
double noise_of_table(std::array<double, table_size> values) {
  std::array<double, table_size> estimates{};
  std::array<bool, table_size> signs{};
  double gamma = 1;  // (k!)² / (2k)!
  for (std::size_t k = 1; k < table_size - 2; ++k) {
    double square = 0;
    bool up = false, down = false;
    for (std::size_t i = 0; i + k < table_size; ++i) {
      values[i] = values[i + 1] - values[i];
      square += values[i] * values[i];
      up = up || values[i] > 0;
      down = down || values[i] < 0;
    }
    gamma *= static_cast<double>(k) / (2 * (2 * static_cast<double>(k) - 1));
    estimates[k] = std::sqrt(gamma * square / static_cast<double>(table_size - k));
    signs[k] = up && down;
  }
  for (std::size_t k = 1; k + 2 < table_size - 2; ++k) {
    const auto [least, most] = std::minmax({estimates[k], estimates[k + 1], estimates[k + 2]});
    if (most <= 4 * least && signs[k]) return estimates[k];
  }
  return estimates[table_size - 3];
}

class EstimatedDifferences {
 public:
  EstimatedDifferences(const Case& c, const Subject& subject, Bench& bench)
      : problem_(c.problem()), case_(c), subject_(subject), in_forward_(forward_subject(subject)), bench_(bench) {}

  bool prepare() {
    if (problem_.profile == Profile::special || element_count(problem_.shape) == 0) return false;
    std::optional<OwnForward> forward = own_forward(case_, in_forward_);
    if (!forward || (problem_.saved && !forward->problem.saved)) return false;
    forward_ = std::move(forward->problem);
    inputs_ = std::move(forward->inputs);
    for (const Role role : {Role::x, Role::gamma, Role::beta}) put_on_grid(role);
    const runner::Outcome own = std::move(run({inputs_}).front());
    double square = 0;
    for (std::size_t i = 0; i < dy().size(); ++i) {
      const double term = static_cast<double>(dy()[i]) * static_cast<double>(own.outputs[Role::y][i]);
      square += term * term;
      largest_term_ = std::max(largest_term_, std::fabs(term));
    }
    typical_ = std::sqrt(square);
    if (!std::isfinite(typical_) || typical_ == 0) return false;
    Inputs backward = case_.inputs();
    for (const Role role : {Role::x, Role::gamma})
      if (!backward[role].empty()) backward[role] = inputs_[role];
    for (const Role role : {Role::mean, Role::stat})
      if (!backward[role].empty()) backward[role] = own.outputs[role];
    old_ = backward;
    const runner::Call call = call_of(problem_, backward, subject_);
    outputs_ = std::move(bench_.run({&call, 1}).front()).outputs;
    return true;
  }

  Judgement judge() {
    estimate_noise();
    for (const auto& [role, gradient] :
         {std::pair{Role::x, Role::dx}, std::pair{Role::gamma, Role::dgamma}, std::pair{Role::beta, Role::dbeta}}) {
      if (!use_of(problem_, gradient).write || unit_[role] == 0) continue;
      for (const std::size_t i : places(inputs_[role].size())) judge_element(role, gradient, i);
    }
    return std::move(judgement_);
  }

  [[nodiscard]] const DifferenceCurve& curve() const { return curve_; }

 private:
  [[nodiscard]] const std::vector<float>& dy() const { return case_.inputs()[Role::dy]; }

  // The unit of a tensor's steps is a power of two near its deviations; values become multiples of a grid on which all
  // moved values are float32.
  void put_on_grid(Role role) {
    auto& values = inputs_[role];
    double mean = 0, square = 0, largest = 0;
    for (const float value : values) mean += static_cast<double>(value) / static_cast<double>(values.size());
    for (const float value : values) {
      const double d = static_cast<double>(value) - mean;
      square += d * d / static_cast<double>(values.size());
      largest = std::max(largest, std::fabs(static_cast<double>(value)));
    }
    // A single parameter, or equal ones: by their size.
    const double spread = square > 0 ? std::sqrt(square) : std::max(largest, 1.0);
    if (values.empty() || !(spread > 0x1p-60) || !(largest < 0x1p60)) return;
    int exponent = 0;
    std::frexp(spread, &exponent);
    unit_[role] = std::ldexp(1.0, exponent - 1);
    std::frexp(largest + std::ldexp(unit_[role], first_step + steps), &exponent);
    grid_[role] = std::ldexp(1.0, exponent - 24);
    for (float& value : values)
      value = static_cast<float>(std::nearbyint(static_cast<double>(value) / grid_[role]) * grid_[role]);
  }

  std::vector<runner::Outcome> run(const std::vector<Inputs>& all) {
    std::vector<runner::Call> calls;
    for (const Inputs& inputs : all) calls.push_back(call_of(forward_, inputs, in_forward_));
    return bench_.run(calls);
  }

  // f where element i of a role is moved by each of `by`.
  std::vector<double> values_at(Role role, std::size_t i, const std::vector<double>& by) {
    std::vector<Inputs> all;
    for (const double step : by) {
      all.push_back(inputs_);
      float& value = all.back()[role][i];
      value = static_cast<float>(static_cast<double>(value) + step);
    }
    std::vector<double> result;
    for (const runner::Outcome& outcome : run(all)) {
      double sum = 0;
      for (std::size_t e = 0; e < dy().size(); ++e)
        sum += static_cast<double>(dy()[e]) * static_cast<double>(outcome.outputs[Role::y][e]);
      result.push_back(sum);
    }
    return result;
  }

  void estimate_noise() {
    noise_ = unit_float32 * largest_term_;
    const std::size_t count = inputs_[Role::x].size();
    if (unit_[Role::x] == 0) return;
    const double spacing = std::max(grid_[Role::x], std::ldexp(unit_[Role::x], -16));
    for (const std::size_t i : {std::size_t{0}, count / 3, count - 1}) {
      std::vector<double> by;
      for (std::size_t k = 0; k < table_size; ++k) by.push_back((static_cast<double>(k) - 4) * spacing);
      const std::vector<double> values = values_at(Role::x, i, by);
      std::array<double, table_size> table{};
      std::copy(values.begin(), values.end(), table.begin());
      noise_ = std::max(noise_, noise_of_table(table));
    }
  }

  [[nodiscard]] std::vector<std::size_t> places(std::size_t count) const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < count; ++i) {
      const bool border = i < 2 || i + 3 > count;
      if (count <= all_up_to || border || random_words(problem_.key, 0xE57, i).w[0] % count < 24) result.push_back(i);
    }
    return result;
  }

  void judge_element(Role role, Role gradient, std::size_t i) {
    std::vector<double> by;
    for (int k = 0; k <= steps; ++k)
      for (const double sign : {-1.0, 1.0}) by.push_back(sign * std::ldexp(unit_[role], first_step + k));
    const std::vector<double> f = values_at(role, i, by);
    const auto near = [&](int k) {
      return f[static_cast<std::size_t>(2 * k + 1)] - f[static_cast<std::size_t>(2 * k)];
    };
    const double old =
        problem_.convention.gradients == Gradients::accumulate && role != Role::x && !old_[gradient].empty()
            ? static_cast<double>(old_[gradient][i])
            : 0;
    const double got = static_cast<double>(outputs_[gradient][i]) - old;
    const double rms = root_mean_square(outputs_[gradient]);
    double largest = 0;
    for (const float value : outputs_[gradient]) largest = std::max(largest, std::fabs(static_cast<double>(value)));
    const double own = (8 * noise_ / typical_ + 0x1p-22) * largest;
    DifferenceCurve curve;
    double best = infinity;
    double quotient = 0;
    double previous = 0;
    for (int k = 0; k < steps; ++k) {
      const double h = std::ldexp(unit_[role], first_step + k);
      const double second = near(k) / (2 * h);
      const double fourth = (8 * near(k) - near(k + 1)) / (12 * h);
      DifferenceStep step{h, h / unit_[role], got - second, got - fourth, 12 * noise_ / h, infinity, own};
      if (k > 0) step.truncation = std::fabs(fourth - previous) * 16 / 15;
      previous = fourth;
      if (step.noise + step.truncation < best) {
        best = step.noise + step.truncation;
        quotient = fourth;
        curve.chosen = curve.steps.size();
      }
      curve.steps.push_back(step);
    }
    const double tolerance = best + own;
    const double scale = std::max({std::fabs(got), std::fabs(quotient), rms});
    if (!(tolerance < 0.01 * scale)) {
      if (scale > 0) ++judgement_.not_judged;
      return;
    }
    ++judgement_.elements;
    const double error = std::fabs(got - quotient);
    const double share = std::isnan(error) ? infinity : error / tolerance;
    if (judgement_.peak[gradient].index < 0 || share > judgement_.peak[gradient].share) {
      curve.at = place(problem_, gradient, i);
      curve.scale = scale;
      curve.estimated = true;
      if (gradient == Role::dx) curve_ = std::move(curve);
    }
    judgement_.take(gradient, i, share);
    if (share <= 1 || judgement_.violation) return;
    Violation violation;
    violation.at = place(problem_, gradient, i, outputs_[gradient]);
    violation.got = both_ways(got);
    violation.want =
        fmt::format("{} within {:.4g} (estimated), by differences of its own forward", shortest(quotient), tolerance);
    violation.error = fmt::format(
        "{:.4g} of the estimated tolerance, {:.3g} of the scale   (noise and truncation {:.2g}, "
        "{} {:.2g})",
        share, error / scale, best, name_of(gradient), own);
    judgement_.violation = std::move(violation);
  }

  const Problem& problem_;
  const Case& case_;
  const Subject& subject_;
  Subject in_forward_;
  Bench& bench_;
  Problem forward_;
  Inputs inputs_, old_, outputs_;
  PerRole<double> unit_{}, grid_{};
  double noise_ = 0;
  double typical_ = 0;
  double largest_term_ = 0;
  Judgement judgement_;
  DifferenceCurve curve_;
};

}  // namespace

Judgement judge_estimated_differences(const Case& c, const Subject& subject, Bench& bench) {
  EstimatedDifferences differences(c, subject, bench);
  if (differences.prepare()) return differences.judge();
  Judgement judgement;
  judgement.discarded = true;
  return judgement;
}

DifferenceCurve worst_estimated_curve(const Case& c, const Subject& subject, Bench& bench) {
  EstimatedDifferences differences(c, subject, bench);
  if (!differences.prepare()) return {};
  (void)differences.judge();
  return differences.curve();
}

}  // namespace normgate
