// Central differences of the forward definition at 160 digits. What is shared with the closed form is how inputs are
// read (parameters-inl.h); the derivative is nowhere.
//
//   order 2  (f(h) - f(-h)) / 2h
//   order 4  (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h
//
// of f = sum of dy y over what the argument moves: one group for an element of x, one channel for gamma and beta.
//
// Why `bound` holds. The step is h = t S; S = D, but sqrt(v) for eps outside the root. Inside the root moving x_j by
// tau S turns v + eps into S² (1 + 2 a tau + b tau²) with b <= 1/N_v and |a| <= sqrt(b), so 1/D is 1/S times the sum of
// P_k(-a/sqrt(b)) (sqrt(b) tau)^k with Legendre polynomials, none above 1 in modulus. x - mean is linear in tau, and so
// the k-th Taylor coefficient of f is at most n |mean(g x^)| b^(k/2) + 2 max|g| b^((k-1)/2) <= 5 max|g| for k >= 3. As
// a floor D is this with eps = 0, or constant. Outside the root D/S is the square root of that polynomial plus a
// constant, and the coefficients are at most 2^k times as large. The error of order p is 1 (p = 2) or 4 (p = 4) times
// the (p+1)-th coefficient times t^p and, for t <= 10^-2, little more: below 1000 t^p of the row scale r max|g| (...).
// gamma and beta enter linearly, and x does in inference: their differences have no such error.
// Rounding: f is known to 10^-150 of its terms even at kappa = 10^9, the differences to better than 10^-50 of the row
// scale for steps down to 10^-60.
#include "reference/truth/finite_differences.hpp"

#include <algorithm>
#include <boost/multiprecision/eigen.hpp>

#include "reference/truth/hundred_digits-inl.h"
#include "reference/truth/parameters-inl.h"

namespace normgate {
namespace {

using hundred_digits::AllDigits;
using Wide =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<160, boost::multiprecision::allocate_stack>,
                                  boost::multiprecision::et_off>;

double modulus(const Wide& value) { return std::fabs(static_cast<double>(value)); }

class Witness {
 public:
  Witness(const Problem& problem, const Inputs& inputs, DifferenceOrder order, int step_exponent)
      : problem_(problem),
        inputs_(inputs),
        order_(order),
        step_(pow(Wide(10), step_exponent)),
        truncation_(1000 * std::pow(10.0, static_cast<double>(order) * step_exponent)),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        eps_(problem.eps),
        affine_(affine_of<Wide>(problem, inputs)) {}

  void difference() {
    out_[Role::dx].resize(static_cast<std::size_t>(element_count(problem_.shape)));
    dx_scale_.resize(static_cast<std::size_t>(groups_.count()));
    kink_.assign(static_cast<std::size_t>(groups_.count()), false);
    for (std::int64_t q = 0; q < groups_.count(); ++q) statistics_.push_back(statistics_at(q, values(q)));
    if (groups_.size() > 0)
      for (std::int64_t q = 0; q < groups_.count(); ++q) difference_group(q);
    if (problem_.gamma) difference_parameter(Role::dgamma, affine_.gamma);
    if (problem_.beta) difference_parameter(Role::dbeta, affine_.beta);
  }

  [[nodiscard]] Differences differences() const {
    Differences result;
    result.kink = kink_;
    for (const Role role : {Role::dx, Role::dgamma, Role::dbeta})
      for (std::size_t i = 0; i < out_[role].size(); ++i) {
        Exact exact;
        exact.hi = static_cast<double>(out_[role][i]);
        if (exact.finite()) {
          exact.lo = static_cast<double>(Wide(out_[role][i] - Wide(exact.hi)));
          exact.bound =
              0x1p-105 * std::fabs(exact.hi) + scale(role, i) * (1e-50 + (role == Role::dx ? truncation_ : 0));
        }
        result.out[role].push_back(exact);
      }
    return result;
  }

  [[nodiscard]] AllDigits digits() const {
    AllDigits result;
    for (const Role role : {Role::dx, Role::dgamma, Role::dbeta})
      for (const Wide& value : out_[role]) result[role].push_back(hundred_digits::T(value));
    return result;
  }

 private:
  struct Element {
    std::int64_t q;
    Eigen::Index p;
    Wide dy;
  };

  [[nodiscard]] Values<Wide> values(std::int64_t q) const { return values_of<Wide>(inputs_[Role::x], groups_, q); }

  // The statistics of group q where its elements are x: theirs, or the given ones.
  [[nodiscard]] GroupStatistics<Wide> statistics_at(std::int64_t q, const Values<Wide>& x) const {
    if (is_training(problem_.phase)) return own_statistics(problem_, x);
    auto given = given_statistics<Wide>(problem_, inputs_, groups_, q);
    given.centred = x - given.mean;
    return given;
  }

  // One difference quotient of f around 0.
  template <typename Function>
  [[nodiscard]] Wide quotient(const Wide& h, Function f) const {
    const Wide near = f(h) - f(Wide(-h));
    if (order_ == DifferenceOrder::second) return near / (h * 2);
    const Wide far = f(Wide(h * 2)) - f(Wide(h * -2));
    return (near * 8 - far) / (h * 12);
  }

  void difference_group(std::int64_t q) {
    const Values<Wide> x = values(q);
    const GroupStatistics<Wide>& statistics = statistics_[static_cast<std::size_t>(q)];
    std::vector<std::size_t> index;
    std::vector<std::size_t> channel;
    std::vector<Wide> dy;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      index.push_back(static_cast<std::size_t>(i));
      channel.push_back(static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at)));
      dy.emplace_back(inputs_[Role::dy][index.back()]);
    });
    const bool training = is_training(problem_.phase);
    // Above or below the floor, or on it: where the steps do not agree the forward has a kink between them.
    const auto side = [&](const Wide& variance) { return variance > eps_ ? 1 : variance < eps_ ? -1 : 0; };
    const bool floor = training && problem_.convention.eps == EpsPlacement::floor && !constant_variance();
    bool kink = training && !constant_variance() && is_singular(statistics);
    kink = kink || (floor && side(statistics.variance) == 0);
    const Wide h = step_ * unit(statistics);
    for (Eigen::Index j = 0; j < x.size(); ++j) {
      const auto f = [&](const Wide& step) {
        Values<Wide> moved = x;
        moved[j] += step;
        const GroupStatistics<Wide> at = statistics_at(q, moved);
        if (floor && side(at.variance) != side(statistics.variance)) kink = true;
        Wide sum(0);
        for (Eigen::Index p = 0; p < x.size(); ++p) {
          const auto e = static_cast<std::size_t>(p);
          sum += dy[e] * affine(at.centred[p], at.rstd, affine_.gamma[channel[e]], affine_.beta[channel[e]]);
        }
        return sum;
      };
      out_[Role::dx][index[static_cast<std::size_t>(j)]] = quotient(h, f);
    }
    kink_[static_cast<std::size_t>(q)] = kink;
    // r (max|g| + max|x^| |mean(g x^)|)
    double largest_g = 0;
    double largest_normalized = 0;
    Wide sum(0);
    for (Eigen::Index p = 0; p < x.size(); ++p) {
      const auto e = static_cast<std::size_t>(p);
      const Wide g = dy[e] * affine_.gamma[channel[e]];
      const Wide normalized = statistics.centred[p] * statistics.rstd;
      largest_g = std::max(largest_g, modulus(g));
      largest_normalized = std::max(largest_normalized, modulus(normalized));
      sum += g * normalized;
    }
    const double mean = training ? modulus(sum) / static_cast<double>(x.size()) : 0;
    dx_scale_[static_cast<std::size_t>(q)] = modulus(statistics.rstd) * (largest_g + largest_normalized * mean);
  }

  // A single centred value has no variance, wherever it moves.
  [[nodiscard]] bool constant_variance() const { return row_.centred && groups_.size() == 1; }

  // Where 1/D or its derivative is infinite.
  [[nodiscard]] bool is_singular(const GroupStatistics<Wide>& statistics) const {
    return statistics.variance == 0 && (problem_.convention.eps == EpsPlacement::outside || eps_ == 0);
  }

  // What the step is measured in: how far x has to move for D to change by a part of itself. Inference is linear.
  [[nodiscard]] Wide unit(const GroupStatistics<Wide>& statistics) const {
    if (!is_training(problem_.phase)) return Wide(1);
    const bool outside = problem_.convention.eps == EpsPlacement::outside && statistics.variance > 0;
    return outside ? Wide(sqrt(statistics.variance)) : Wide(Wide(1) / statistics.rstd);
  }

  // dy x^ and dy summed over a channel, as what a change of gamma and beta makes of sum dy y; and their row scales.
  void difference_parameter(Role role, std::vector<Wide>& parameter) {
    std::vector<std::vector<Element>> elements(parameter.size());
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      Eigen::Index p = 0;
      groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
        const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
        elements[c].push_back({q, p++, Wide(inputs_[Role::dy][static_cast<std::size_t>(i)])});
      });
    }
    for (std::size_t c = 0; c < parameter.size(); ++c) {
      const Wide here = parameter[c];
      const Wide derivative = quotient(step_, [&](const Wide& step) {
        parameter[c] = here + step;
        Wide sum(0);
        for (const Element& element : elements[c]) {
          const auto& statistics = statistics_[static_cast<std::size_t>(element.q)];
          // beta's derivative is the same at every x^, so at 0 too, where there is none (one value under n-1).
          const Wide centred = role == Role::dbeta ? Wide(0) : statistics.centred[element.p];
          const Wide rstd = role == Role::dbeta ? Wide(1) : statistics.rstd;
          sum += element.dy * affine(centred, rstd, affine_.gamma[c], affine_.beta[c]);
        }
        return sum;
      });
      parameter[c] = here;
      double scale = 0;
      for (const Element& element : elements[c]) {
        const auto& statistics = statistics_[static_cast<std::size_t>(element.q)];
        scale += modulus(element.dy) *
                 (role == Role::dbeta ? 1.0 : modulus(statistics.centred[element.p] * statistics.rstd));
      }
      const bool accumulates = problem_.convention.gradients == Gradients::accumulate;
      const Wide old(accumulates ? inputs_[role][c] : 0.0F);
      out_[role].push_back(old + derivative);
      (role == Role::dgamma ? dgamma_scale_ : dbeta_scale_).push_back(scale + modulus(old));
    }
  }

  [[nodiscard]] double scale(Role role, std::size_t i) const {
    constexpr double smallest = 0x1p-126;
    if (role == Role::dgamma) return std::max(dgamma_scale_[i], smallest);
    if (role == Role::dbeta) return std::max(dbeta_scale_[i], smallest);
    Shape at{};
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t a = axis_count; a-- > 0;) {
      at[a] = rest % problem_.shape[a];
      rest /= problem_.shape[a];
    }
    return std::max(dx_scale_[static_cast<std::size_t>(group_index(problem_, at))], smallest);
  }

  const Problem& problem_;
  const Inputs& inputs_;
  DifferenceOrder order_;
  Wide step_;
  double truncation_;
  const VariantRow& row_;
  Groups groups_;
  Wide eps_;
  Affine<Wide> affine_;
  std::vector<GroupStatistics<Wide>> statistics_;
  std::vector<bool> kink_;
  PerRole<std::vector<Wide>> out_;
  std::vector<double> dx_scale_;  // by group
  std::vector<double> dgamma_scale_;
  std::vector<double> dbeta_scale_;
};

double largest(const std::vector<hundred_digits::T>& values) {
  double result = 0;
  for (const hundred_digits::T& value : values) result = std::max(result, hundred_digits::magnitude(value));
  return result;
}

double error_of(const std::vector<hundred_digits::T>& values, const std::vector<hundred_digits::T>& truth,
                double scale) {
  double result = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    result = std::max(result, hundred_digits::magnitude(hundred_digits::T(values[i] - truth[i])));
  return result / scale;
}

}  // namespace

Differences finite_differences(const Problem& problem, const Inputs& inputs, DifferenceOrder order, int step_exponent) {
  Witness witness(problem, inputs, order, step_exponent);
  witness.difference();
  return witness.differences();
}

hundred_digits::AllDigits hundred_digits::difference_digits(const Problem& problem, const Inputs& inputs,
                                                            DifferenceOrder order, int step_exponent) {
  Witness witness(problem, inputs, order, step_exponent);
  witness.difference();
  return witness.digits();
}

// D4(h) = f' + c4 h^4 + c6 h^6 + …, so that (10^4 D4(h/10) - D4(h)) / (10^4 - 1) has an error of order 6: the leading
// term is gone, and of c6 h^6 is left (10^-2 - 1) / (10^4 - 1), about -10^-4.
std::vector<Convergence> convergence(const Problem& problem, const Inputs& inputs) {
  using hundred_digits::T;
  constexpr int first = -2;  // decades of the steps
  constexpr int last = -5;
  const std::vector<T> truth = hundred_digits::backward_digits(problem, inputs, SavedUse::recomputes)[Role::dx];
  const double scale = largest(truth);
  std::vector<Convergence> result{
      {"central", 2, {}, {}, 0}, {"fourth order", 4, {}, {}, 0}, {"Richardson", 6, {}, {}, 0}};
  std::vector<T> coarser;
  for (int decade = first; decade >= last; --decade) {
    const double step = std::pow(10.0, decade);
    const auto difference = [&](DifferenceOrder order) {
      return hundred_digits::difference_digits(problem, inputs, order, decade)[Role::dx];
    };
    const std::vector<T> second = difference(DifferenceOrder::second);
    const std::vector<T> fourth = difference(DifferenceOrder::fourth);
    const auto enter = [&](Convergence& method, const std::vector<T>& values) {
      method.steps.push_back(step);
      method.errors.push_back(error_of(values, truth, scale));
    };
    enter(result[0], second);
    enter(result[1], fourth);
    if (!coarser.empty()) {
      std::vector<T> extrapolated;
      for (std::size_t i = 0; i < fourth.size(); ++i)
        extrapolated.push_back(T((fourth[i] * 10000 - coarser[i]) / 9999));
      enter(result[2], extrapolated);
    }
    coarser = fourth;
  }
  for (Convergence& method : result) {
    const std::size_t n = method.errors.size();
    method.observed = std::log10(method.errors[n - 2] / method.errors[n - 1]);
  }
  return result;
}

}  // namespace normgate
