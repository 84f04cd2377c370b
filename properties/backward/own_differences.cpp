// What is compared. Let y^ be the kernel's forward and f^(x) = Σ dy y^(x), summed over a group in double. Of elements
// of the group that move by ±h and ±2h
//
//   D4 = (8 (f^(h) - f^(-h)) - (f^(2h) - f^(-2h))) / 12h
//
// is, if the forward is sound, within `noise` of the same quotient of the definition: (8 (N(h) + N(-h)) + N(2h) +
// N(-2h)) / 12h, where N bounds |Σ dy (y^ - y)| at the moved x itself (Bounds::along), plus what the sums round in
// double. That quotient is within `truncation` of the derivative (reference/bounds/differences.cpp), and if the
// backward is sound, its dx within `own` of the derivative (its bound of what it computes from the statistics that it
// is handed, plus what that is off the derivative). So for a sound kernel |dx - D4| is at most the sum of the three: no
// constant here is a matter of taste, and what exceeds it is a forward or a backward that breaks its claim. With
// respect to gamma and beta y is linear: the quotient of order 2 has no truncation, at any step.
//
// Steps are powers of two, and x, gamma and beta are rounded to multiples of a power of two so coarse that all moved
// values are float32: no step is rounded. x of a group keeps at least 24 bits of its largest element with the largest
// step. Groups do not see each other: an element of each is moved in the same call. Above 4096 elements one element
// moves the sum less than the forward's noise; blocks of neighbours then move together, with signs.
//
// The step minimizes truncation plus noise as they are known before anything is run: it never depends on the error.
// What is judged: elements whose tolerance is below 1 % of max(|dx|, r rms(g)) (blocks of m elements: r rms(g)
// sqrt(m)), of dgamma and dbeta that of max(|value|, what sums of their terms with random signs are in the mean over
// the channels). Others are counted as not judged. Where the forward has a kink there is nothing to judge.
//
// The statistics that the backward is handed are those that the kernel's own forward saved, where it saves any: a pair
// that disagrees about what is saved cannot hide behind good values. A kernel that works from y is handed its own y.
#include "properties/backward/own_differences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "properties/backward/estimated_differences.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "reference/bounds/differences.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/affine.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::int64_t longest_single = 4096;  // above it blocks move
constexpr std::int64_t all_up_to = 64;         // elements of a group, each of which is moved
constexpr double judged_below = 0.01;          // of the scale
constexpr int first_step = -8;                 // of the ladder: 2^-8 deviations …
constexpr int last_step = 8;                   // … up to where the series still converges

// A power of two at most `value`, which is positive and finite.
double power_below(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - 1);
}

// To a multiple of `grid`, a power of two.
float on_grid(float value, double grid) {
  return static_cast<float>(std::nearbyint(static_cast<double>(value) / grid) * grid);
}

// Elements of a group that move together.
struct Move {
  std::int64_t first = 0;
  std::vector<int> signs{1};
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(signs.size()); }
};

std::vector<Move> moves_of(std::int64_t n, std::uint64_t key) {
  std::vector<Move> moves;
  if (n > longest_single) {
    const std::int64_t block = std::int64_t{1} << static_cast<int>(std::log2(static_cast<double>(n)) / 2 + 2);
    const auto add = [&](std::int64_t first, std::uint64_t stream) {
      Move move;
      move.first = first;
      move.signs.resize(static_cast<std::size_t>(std::min(block, n - first)));
      for (std::size_t p = 0; p < move.signs.size(); ++p)
        move.signs[p] = (random_words(key, 0x51695 + stream, p).w[0] & 1U) != 0 ? 1 : -1;
      moves.push_back(std::move(move));
    };
    const std::int64_t blocks = n / block;
    add(0, 0);
    add(n - block, 1);
    if (n % block != 0) add(n - n % block, 2);  // the tail behind whole blocks
    for (std::uint64_t j = 0; j < 6; ++j)
      add(static_cast<std::int64_t>(random_words(key, 0xB70C, j).w[0]) % blocks * block, 3 + j);
    return moves;
  }
  std::vector<std::int64_t> places;
  const auto add = [&](std::int64_t place) {
    if (place >= 0 && place < n && std::find(places.begin(), places.end(), place) == places.end())
      places.push_back(place);
  };
  if (n <= all_up_to) {
    for (std::int64_t p = 0; p < n; ++p) add(p);
  } else {
    for (const std::int64_t p : {std::int64_t{0}, std::int64_t{1}, n / 2, n - 2, n - 1}) add(p);
    // The tails behind loops of 4, 8, 16, 32 and 64, and the last element before them.
    for (std::int64_t width = 4; width <= 64; width *= 2) add(n - n % width), add(n - n % width - 1);
    for (std::uint64_t j = 0; j < 8; ++j) add(static_cast<std::int64_t>(random_words(key, 0xB70C, j).w[0]) % n);
  }
  for (const std::int64_t place : places) moves.push_back({place, {1}});
  return moves;
}

class OwnDifferences {
 public:
  OwnDifferences(const Case& c, const Subject& subject, Bench& bench)
      : case_(c),
        problem_(c.problem()),
        subject_(subject),
        in_forward_(forward_subject(subject)),
        bench_(bench),
        groups_(problem_.shape, subject.row),
        n_(groups_.size()) {}

  // False: the case says nothing.
  bool prepare() {
    if (n_ == 0 || groups_.count() == 0 || problem_.profile == Profile::special || problem_.handed != Handed::nearest)
      return false;
    std::optional<OwnForward> forward = own_forward(case_, in_forward_);
    if (!forward) return false;
    forward_ = std::move(forward->problem);
    inputs_ = std::move(forward->inputs);
    for (const Role role : {Role::x, Role::gamma, Role::beta, Role::dy})
      for (const float value : role == Role::dy ? case_.inputs()[role] : inputs_[role])
        if (!std::isfinite(value)) return false;
    round_inputs();
    index_.resize(static_cast<std::size_t>(groups_.count()));
    channel_.resize(inputs_[Role::x].size());
    for (std::int64_t q = 0; q < groups_.count(); ++q)
      groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
        index_[static_cast<std::size_t>(q)].push_back(static_cast<std::size_t>(i));
        channel_[static_cast<std::size_t>(i)] =
            static_cast<std::size_t>(dense_index(problem_.shape, subject_.row.affine, at));
      });
    base_.emplace(forward_, inputs_);
    base_noise_ = forward_bounds_along(forward_, inputs_, base_->truth(), in_forward_.kernel.claim, dy()).along;
    run_backward();
    collect_terms();
    return true;
  }

  Judgement judge() {
    const std::vector<Move> moves = moves_of(n_, problem_.key);
    judge_moves(moves);
    judge_parameter(Role::gamma, Role::dgamma);
    judge_parameter(Role::beta, Role::dbeta);
    return std::move(judgement_);
  }

  // After judge().
  DifferenceCurve curve() {
    DifferenceCurve curve;
    if (worst_group_ < 0) return curve;
    const auto q = static_cast<std::size_t>(worst_group_);
    curve.at = worst_at_;
    curve.scale = scale_of(worst_move_, q);
    const DirectionTerms terms = terms_of(worst_move_, q);
    const double chosen = step_of(terms, q);
    for (const double h : ladder_[q]) {
      std::vector<double> steps(static_cast<std::size_t>(groups_.count()), 0);
      steps[q] = h;
      const std::vector<Quotients> all = quotients({worst_move_}, {steps});
      const Quotients& here = all[q];
      const double got = gradient_along(worst_move_, q);
      if (h == chosen) curve.chosen = curve.steps.size();
      curve.steps.push_back({h, h / terms.unit, got - here.second, got - here.fourth, here.noise,
                             truncation_bound(terms, h / terms.unit), own_along(worst_move_, q)});
    }
    return curve;
  }

 private:
  struct Quotients {
    double second = 0;
    double fourth = 0;
    double noise = infinity;
  };

  [[nodiscard]] const std::vector<float>& dy() const { return case_.inputs()[Role::dy]; }

  // Ladders, and x, gamma and beta on the grid that makes all moved values float32.
  void round_inputs() {
    const Case unrounded(forward_, inputs_);
    ladder_.resize(static_cast<std::size_t>(groups_.count()));
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      const auto g = static_cast<std::size_t>(q);
      double largest = 0;
      groups_.for_each(q, [&](std::int64_t i, const Shape&) {
        largest = std::max(largest, std::fabs(static_cast<double>(inputs_[Role::x][static_cast<std::size_t>(i)])));
      });
      const double unit = unit_of(unrounded.truth().groups[g]);
      if (!(unit > 0x1p-100) || !(unit < 0x1p100) || largest > 0x1p100) continue;
      // Up to where 2t sqrt(b) is a half: one element has b of about 1/n.
      const double most = std::max(1.0, std::sqrt(static_cast<double>(n_)) / 4);
      const double reach = largest + 2 * most * unit;
      const double grid = power_below(reach) * 0x1p-22;
      for (int k = first_step; k <= last_step; ++k) {
        const double h = power_below(unit) * std::ldexp(1.0, k);
        if (h >= grid && h <= most * unit) ladder_[g].push_back(h);
      }
      groups_.for_each(q, [&](std::int64_t i, const Shape&) {
        float& value = inputs_[Role::x][static_cast<std::size_t>(i)];
        value = on_grid(value, grid);
      });
    }
    // A long step costs nothing where y is linear: longer than gamma and beta both, so that the rounding of y is small
    // beside it.
    const std::size_t channels = std::max(inputs_[Role::gamma].size(), inputs_[Role::beta].size());
    for (std::size_t c = 0; c < channels; ++c) {
      double largest = 1;
      for (const Role role : {Role::gamma, Role::beta})
        if (!inputs_[role].empty()) largest = std::max(largest, std::fabs(static_cast<double>(inputs_[role][c])));
      const double step = 2 * power_below(largest);
      for (const Role role : {Role::gamma, Role::beta}) {
        if (inputs_[role].empty()) continue;
        parameter_step_[role].push_back(step);
        inputs_[role][c] = on_grid(inputs_[role][c], step * 0x1p-22);
      }
    }
  }

  // What steps are measured in; 0 where there is no variance to have a derivative.
  [[nodiscard]] double unit_of(const GroupTruth& group) const {
    const bool outside = problem_.convention.eps == EpsPlacement::outside && is_training(problem_.phase);
    const double unit = outside && group.variance.hi > 0 ? std::sqrt(group.variance.hi) : 1 / group.rstd.hi;
    return std::isfinite(unit) ? unit : 0;
  }

  void run_backward() {
    Inputs inputs = case_.inputs();
    for (const Role role : {Role::x, Role::gamma, Role::beta})
      if (use_of(problem_, role).read) inputs[role] = inputs_[role];
    if (problem_.phase == Phase::backward_training && problem_.saved) {
      const auto& groups = base_->truth().groups;
      const bool reciprocal = problem_.convention.saved == SavedStatistic::rstd;
      for (std::size_t q = 0; q < groups.size(); ++q) {
        if (!inputs[Role::mean].empty()) inputs[Role::mean][q] = static_cast<float>(groups[q].mean.hi);
        inputs[Role::stat][q] = static_cast<float>(reciprocal ? groups[q].rstd.hi : groups[q].variance.hi);
      }
      if (forward_.saved || problem_.from_output) {
        const runner::Call call = call_of(forward_, inputs_, in_forward_);
        const runner::Outcome own = std::move(bench_.run({&call, 1}).front());
        for (const Role role : {Role::mean, Role::stat})
          if (!own.outputs[role].empty() && !inputs[role].empty()) inputs[role] = own.outputs[role];
        if (problem_.from_output) inputs[Role::y] = own.outputs[Role::y];
      }
    }
    const Case backward(problem_, inputs);
    outputs_ = bench_.run_one(problem_, inputs).outputs;
    old_ = inputs;
    // The derivative itself, whatever is handed.
    Problem derivative = problem_;
    derivative.saved = derivative.from_output = false;
    Inputs of_x = inputs;
    of_x[Role::x] = inputs_[Role::x];
    const Case plain(derivative, std::move(of_x));
    const Demand demand = demand_of(backward, subject_);
    truth_ = problem_.phase == Phase::backward_training && (problem_.saved || problem_.from_output)
                 ? plain.gradient(SavedUse::recomputes)
                 : *demand.truth;
    const Bounds bounds = around_derivative(*demand.bounds, *demand.truth, truth_);
    for (const Role role : gradient_roles) own_[role] = bounds.tolerance[role];
  }

  void collect_terms() {
    const auto count = static_cast<std::size_t>(groups_.count());
    g_.resize(inputs_[Role::x].size());
    d_.resize(g_.size());
    values_.resize(count), rms_.resize(count), mean_g_.resize(count);
    for (std::size_t q = 0; q < count; ++q) {
      const GroupTruth& group = base_->truth().groups[q];
      double sum = 0, moduli = 0, square = 0, of_g = 0;
      groups_.for_each(static_cast<std::int64_t>(q), [&](std::int64_t e, const Shape& at) {
        const auto i = static_cast<std::size_t>(e);
        g_[i] = static_cast<double>(dy()[i]) * gamma_in_use(forward_, inputs_, subject_.row, at);
        const auto x = static_cast<double>(inputs_[Role::x][i]);
        d_[i] = minus(x, group.mean);
        sum += g_[i] * d_[i];
        moduli += std::fabs(g_[i] * d_[i]);
        square += g_[i] * g_[i];
        of_g += g_[i];
      });
      const auto n = static_cast<double>(n_);
      values_[q] = std::fabs(sum) + (n + 8) * 0x1p-52 * moduli;
      rms_[q] = std::sqrt(square / n);
      mean_g_[q] = subject_.row.centred && is_training(problem_.phase) ? of_g / n : 0;
    }
  }

  [[nodiscard]] DirectionTerms terms_of(const Move& move, std::size_t q) const {
    const GroupTruth& group = base_->truth().groups[q];
    const bool training = is_training(problem_.phase);
    const auto n = static_cast<double>(n_);
    double sum = 0, of_g = 0, moduli = 0;
    for (std::int64_t p = 0; p < move.size(); ++p) {
      const std::size_t i = index_[q][static_cast<std::size_t>(move.first + p)];
      const int sign = move.signs[static_cast<std::size_t>(p)];
      sum += sign;
      of_g += sign * g_[i];
      moduli += std::fabs(g_[i]);
    }
    const bool centred = subject_.row.centred && training;
    const bool n_minus_1 = centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    DirectionTerms direction;
    direction.unit = unit_of(group);
    direction.rstd = group.rstd.hi;
    direction.of_values = values_[q];
    // Σ g v~ = Σ g v - mean(g) Σ v
    direction.of_motion = std::fabs(of_g - mean_g_[q] * sum) + (n + 8) * 0x1p-52 * (moduli + n * rms_[q]);
    const double squares = static_cast<double>(move.size()) - (centred ? sum * sum / n : 0);
    direction.steepness = std::sqrt(std::max(0.0, squares) / std::max(1.0, n - (n_minus_1 ? 1 : 0)));
    direction.deviation = group.variance.finite() ? std::sqrt(std::max(0.0, group.variance.hi)) : 0;
    direction.eps = problem_.eps;
    direction.placement = problem_.convention.eps;
    direction.constant = !training || (centred && n_ == 1);
    return direction;
  }

  // The least of truncation and noise by what is known at x; 0 if there is none.
  [[nodiscard]] double step_of(const DirectionTerms& terms, std::size_t q) const {
    double best = infinity;
    double step = 0;
    for (const double h : ladder_[q]) {
      const double model = truncation_bound(terms, h / terms.unit) + 18 * base_noise_[q] / (12 * h);
      if (!(model < best)) continue;
      best = model;
      step = h;
    }
    return step;
  }

  // For each move and group the quotients of Σ dy y^ at that step; steps of 0 stay.
  std::vector<Quotients> quotients(const std::vector<Move>& moves, const std::vector<std::vector<double>>& steps) {
    constexpr std::array<int, 4> multiples{-2, -1, 1, 2};
    const auto count = static_cast<std::size_t>(groups_.count());
    std::vector<runner::Call> calls;
    for (std::size_t m = 0; m < moves.size(); ++m)
      for (const int multiple : multiples) {
        Inputs moved = inputs_;
        for (std::size_t q = 0; q < count; ++q)
          for (std::int64_t p = 0; p < moves[m].size(); ++p) {
            float& x = moved[Role::x][index_[q][static_cast<std::size_t>(moves[m].first + p)]];
            x = static_cast<float>(static_cast<double>(x) +
                                   multiple * moves[m].signs[static_cast<std::size_t>(p)] * steps[m][q]);
          }
        calls.push_back(call_of(forward_, moved, in_forward_));
      }
    const std::vector<runner::Outcome> outcomes = bench_.run(calls);
    std::vector<Quotients> result(moves.size() * count);
    for (std::size_t m = 0; m < moves.size(); ++m) {
      std::array<std::vector<double>, 4> sums, noises;
      std::vector<double> moduli(count);
      for (std::size_t k = 0; k < 4; ++k) {
        const runner::Call& call = calls[4 * m + k];
        const Truth truth = forward_truth(call.problem, call.inputs);
        noises[k] = forward_bounds_along(call.problem, call.inputs, truth, in_forward_.kernel.claim, dy()).along;
        sums[k].assign(count, 0);
        const auto& y = outcomes[4 * m + k].outputs[Role::y];
        for (std::size_t q = 0; q < count; ++q) {
          double modulus = 0;
          for (const std::size_t i : index_[q]) {
            const double term = static_cast<double>(dy()[i]) * static_cast<double>(y[i]);
            sums[k][q] += term;
            modulus += std::fabs(term);
          }
          moduli[q] = std::max(moduli[q], modulus);
        }
      }
      for (std::size_t q = 0; q < count; ++q) {
        const double h = steps[m][q];
        if (h == 0) continue;
        const double near = sums[2][q] - sums[1][q];
        const double far = sums[3][q] - sums[0][q];
        const double doubt = (static_cast<double>(n_) + 16) * 0x1p-52 * moduli[q];
        result[m * count + q] = {
            near / (2 * h), (8 * near - far) / (12 * h),
            (8 * (noises[1][q] + noises[2][q]) + noises[0][q] + noises[3][q] + 18 * doubt) / (12 * h)};
      }
    }
    return result;
  }

  [[nodiscard]] double along(const Move& move, std::size_t q, const std::function<double(std::size_t)>& value) const {
    double sum = 0;
    for (std::int64_t p = 0; p < move.size(); ++p)
      sum += move.signs[static_cast<std::size_t>(p)] * value(index_[q][static_cast<std::size_t>(move.first + p)]);
    return sum;
  }
  [[nodiscard]] double gradient_along(const Move& move, std::size_t q) const {
    return along(move, q, [&](std::size_t i) { return static_cast<double>(outputs_[Role::dx][i]); });
  }
  [[nodiscard]] double own_along(const Move& move, std::size_t q) const {
    double sum = 0;
    for (std::int64_t p = 0; p < move.size(); ++p)
      sum += own_[Role::dx][index_[q][static_cast<std::size_t>(move.first + p)]];
    return sum;
  }
  [[nodiscard]] double scale_of(const Move& move, std::size_t q) const {
    const double derivative = along(move, q, [&](std::size_t i) { return truth_.out[Role::dx][i].hi; });
    return std::max(std::fabs(derivative),
                    base_->truth().groups[q].rstd.hi * rms_[q] * std::sqrt(static_cast<double>(move.size())));
  }

  void judge_moves(const std::vector<Move>& moves) {
    if (!use_of(problem_, Role::dx).write) return;
    constexpr std::int64_t elements_per_batch = std::int64_t{1} << 19;
    const std::int64_t elements = std::max<std::int64_t>(1, element_count(problem_.shape));
    const auto per_batch =
        static_cast<std::size_t>(std::clamp<std::int64_t>(elements_per_batch / (4 * elements), 1, 16));
    const auto count = static_cast<std::size_t>(groups_.count());
    for (std::size_t begin = 0; begin < moves.size(); begin += per_batch) {
      const std::vector<Move> some(
          moves.begin() + static_cast<std::ptrdiff_t>(begin),
          moves.begin() + static_cast<std::ptrdiff_t>(std::min(moves.size(), begin + per_batch)));
      std::vector<std::vector<double>> steps;
      for (const Move& move : some) {
        steps.emplace_back();
        for (std::size_t q = 0; q < count; ++q) steps.back().push_back(step_of(terms_of(move, q), q));
      }
      const std::vector<Quotients> all = quotients(some, steps);
      for (std::size_t m = 0; m < some.size(); ++m)
        for (std::size_t q = 0; q < count; ++q) {
          const Quotients& quotient = all[m * count + q];
          const DirectionTerms terms = terms_of(some[m], q);
          const double h = steps[m][q];
          // At a kink of the forward, or too near to it for the shortest step, there is no derivative to find.
          if (h == 0 && !ladder_[q].empty() && truncation_bound(terms, ladder_[q].front() / terms.unit) == infinity)
            continue;
          const double truncation = h > 0 ? truncation_bound(terms, h / terms.unit) : infinity;
          const double own = own_along(some[m], q);
          const double scale = scale_of(some[m], q);
          const double tolerance = (quotient.noise + truncation + own) * (1 + 0x1p-40);
          const std::size_t at = index_[q][static_cast<std::size_t>(some[m].first)];
          const auto where = [&] {
            return some[m].size() == 1 ? place(problem_, Role::dx, at, outputs_[Role::dx])
                                       : fmt::format("{} and the {} elements of its group behind it, with signs",
                                                     place(problem_, Role::dx, at), some[m].size() - 1);
          };
          const double got = gradient_along(some[m], q);
          const bool worst = demand(Role::dx, at, got, quotient.fourth, tolerance, scale, where, [&] {
            return fmt::format("noise {:.2g}, truncation {:.2g}, dx {:.2g}; steps of {:.3g} = {:.3g} deviations",
                               quotient.noise, truncation, own, h, h / terms.unit);
          });
          if (worst) {
            worst_move_ = some[m];
            worst_group_ = static_cast<std::int64_t>(q);
            worst_at_ = place(problem_, Role::dx, at);
          }
        }
    }
  }

  // All channels in one pair of calls: none sees another's gamma or beta.
  void judge_parameter(Role role, Role gradient) {
    if (!use_of(problem_, gradient).write) return;
    const std::vector<double>& steps = parameter_step_[role];
    std::array<std::vector<double>, 2> sums, noises;
    std::vector<double> moduli(steps.size());
    double squares = 0;
    std::vector<runner::Call> calls;
    for (const int sign : {-1, 1}) {
      Inputs moved = inputs_;
      for (std::size_t c = 0; c < steps.size(); ++c)
        moved[role][c] = static_cast<float>(static_cast<double>(moved[role][c]) + sign * steps[c]);
      calls.push_back(call_of(forward_, moved, in_forward_));
    }
    const std::vector<runner::Outcome> outcomes = bench_.run(calls);
    for (std::size_t k = 0; k < 2; ++k) {
      const Truth truth = forward_truth(forward_, calls[k].inputs);
      const Bounds bounds = forward_bounds(forward_, calls[k].inputs, truth, in_forward_.kernel.claim);
      sums[k].assign(steps.size(), 0);
      noises[k].assign(steps.size(), 0);
      for (std::size_t i = 0; i < channel_.size(); ++i) {
        const double weight = static_cast<double>(dy()[i]);
        const double term = weight * static_cast<double>(outcomes[k].outputs[Role::y][i]);
        sums[k][channel_[i]] += term;
        moduli[channel_[i]] += std::fabs(term);
        noises[k][channel_[i]] += std::fabs(weight) * (bounds.tolerance[Role::y][i] + truth.out[Role::y][i].bound);
      }
    }
    for (std::size_t q = 0; q < index_.size(); ++q)
      for (const std::size_t i : index_[q]) {
        const double hat = role == Role::beta ? 1 : d_[i] * base_->truth().groups[q].rstd.hi;
        const double term = static_cast<double>(dy()[i]) * hat;
        squares += term * term;
      }
    const auto terms = static_cast<double>(channel_.size()) / std::max<double>(1, static_cast<double>(steps.size()));
    for (std::size_t c = 0; c < steps.size(); ++c) {
      const double old = problem_.convention.gradients == Gradients::accumulate && !old_[gradient].empty()
                             ? static_cast<double>(old_[gradient][c])
                             : 0;
      const double quotient = (sums[1][c] - sums[0][c]) / (2 * steps[c]);
      const double noise = (noises[0][c] + noises[1][c] + (2 * terms + 16) * 0x1p-52 * moduli[c]) / (2 * steps[c]);
      const double got = static_cast<double>(outputs_[gradient][c]) - old;
      const double own = own_[gradient][c] + std::fabs(old) * 0x1p-52;
      const double scale =
          std::max(std::fabs(truth_.out[gradient][c].hi - old), std::sqrt(squares / static_cast<double>(steps.size())));
      demand(
          gradient, c, got, quotient, (noise + own) * (1 + 0x1p-40), scale,
          [&] { return place(problem_, gradient, c, outputs_[gradient]); },
          [&] { return fmt::format("noise {:.2g}, {} {:.2g}", noise, name_of(gradient), own); });
    }
  }

  // Whether it is the largest share so far.
  bool demand(Role role, std::size_t element, double got, double quotient, double tolerance, double scale,
              const std::function<std::string()>& at, const std::function<std::string()>& made_of) {
    if (!(tolerance < judged_below * scale)) {
      // Where nothing can be seen there is nothing to judge: a gradient that is 0 by definition, of dy = 0.
      if (scale > 0) ++judgement_.not_judged;
      return false;
    }
    ++judgement_.elements;
    const double error = std::fabs(got - quotient);
    const double share = std::isnan(error) ? infinity : error == 0 ? 0 : error / tolerance;
    const bool worst = judgement_.peak[role].index < 0 || share > judgement_.peak[role].share;
    judgement_.take(role, element, share);
    if (share <= 1 || judgement_.violation) return worst;
    Violation violation;
    violation.at = at();
    violation.got = both_ways(got);
    violation.want = fmt::format("{} within {:.4g}, by differences of its own forward", shortest(quotient), tolerance);
    violation.error =
        fmt::format("{:.4g} of the tolerance{}   ({})", share,
                    std::isfinite(error) ? fmt::format(", {:.3g} of the scale", error / scale) : "", made_of());
    judgement_.violation = std::move(violation);
    return worst;
  }

  const Case& case_;
  const Problem& problem_;
  const Subject& subject_;
  Subject in_forward_;
  Bench& bench_;
  Groups groups_;
  std::int64_t n_;
  Problem forward_;
  Inputs inputs_;  // of the forward, rounded to grids
  Inputs old_;     // of the backward
  Inputs outputs_;
  Truth truth_;                       // the derivative
  PerRole<std::vector<double>> own_;  // the backward's bound around it
  std::optional<Case> base_;
  std::vector<double> base_noise_;
  std::vector<std::vector<double>> ladder_;
  PerRole<std::vector<double>> parameter_step_;
  std::vector<std::vector<std::size_t>> index_;
  std::vector<std::size_t> channel_;
  std::vector<double> g_, d_;                  // by element
  std::vector<double> values_, rms_, mean_g_;  // by group
  Judgement judgement_;
  Move worst_move_;
  std::int64_t worst_group_ = -1;
  std::string worst_at_;
};

}  // namespace

Subject forward_subject(const Subject& subject) {
  return {subject.row, is_training(subject.phase) ? Phase::forward_training : Phase::forward_inference,
          subject.kernel.forward != nullptr ? *subject.kernel.forward : subject.kernel, subject.convention};
}

bool has_own_forward(const Subject& subject) {
  if (!is_backward(subject.phase)) return false;
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  const Subject forward = forward_subject(subject);
  return has(forward.kernel.phases, forward.phase) && has(forward.kernel.conventions, subject.convention);
}

std::optional<OwnForward> own_forward(const Case& c, const Subject& in_forward) {
  const Problem& backward = c.problem();
  Problem problem = backward;
  problem.values = {};
  for (const Role role : {Role::x, Role::gamma, Role::beta}) problem.values[role] = backward.values[role];
  problem.from_output = false;
  problem.in_place = false;
  problem.cotangent = Cotangent::random;
  problem.layout[Role::dy] = Layout{};
  problem = inside_claim(std::move(problem), in_forward);
  if (problem.shape != backward.shape || problem.gamma != backward.gamma || (backward.beta && !problem.beta) ||
      problem.given != backward.given || !check(problem).empty())
    return std::nullopt;
  Inputs inputs = make_inputs(problem);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const auto& handed = c.inputs()[role];
    if (use_of(problem, role).read && !handed.empty()) inputs[role] = handed;
  }
  return OwnForward{std::move(problem), std::move(inputs)};
}

Judgement judge_own_differences(const Case& c, const Subject& subject, Bench& bench) {
  if (!subject.kernel.variant) return judge_estimated_differences(c, subject, bench);
  OwnDifferences differences(c, subject, bench);
  if (differences.prepare()) return differences.judge();
  Judgement judgement;
  judgement.discarded = true;
  return judgement;
}

DifferenceCurve worst_difference_curve(const Case& c, const Subject& subject, Bench& bench) {
  if (!subject.kernel.variant) return worst_estimated_curve(c, subject, bench);
  OwnDifferences differences(c, subject, bench);
  if (!differences.prepare()) return {};
  (void)differences.judge();
  return differences.curve();
}

}  // namespace normgate
