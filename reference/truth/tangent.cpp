// Central differences of the forward definition along a direction, at 100 digits:  (y(h) - y(-h)) / 2h.
//
// Why `bound` holds. Let v be the direction in x, less its mean over the group where the row is centred, W² = Σv²/N_v,
// and S the deviation: D, or sqrt(variance) for eps outside the root. The step is h = t S/W (t where nothing moves the
// variance, and in inference). Moving by tau v turns variance + eps into S² (1 + 2 a tau + b tau²) with b = W²/S² and
// |a| <= sqrt(b) by Cauchy-Schwarz, so the k-th Taylor coefficient of 1/D is at most r b^(k/2) in modulus (Legendre
// polynomials; times 2^k outside the root, finite_differences.cpp). y is (gamma + tau v_gamma) (d + tau v) / D + beta +
// tau v_beta, whose coefficients of odd order p >= 3 times h^(p-1) are at most
//   2^p t^(p-1) (|gamma x^| W/S + (|gamma v| + |v_gamma d|) r + |v_gamma v| r S/W),
// and with t = 10^-25 all of them together stay below 10^-48 of the sum in brackets, |d| r being |x^| and r S at
// most 1. y is rounded by 10^-98 of its terms, kappa included, for any kappa below 10^20: over h that is 10^-53 of
// (|gamma x^| + |beta|) W/S. Even orders cancel, and in inference y is a quadratic, which has no others. 10^-45 of the
// largest brackets of the group covers all of that.
#include "reference/truth/tangent.hpp"

#include <algorithm>
#include <boost/multiprecision/eigen.hpp>
#include <cmath>

#include "reference/truth/hundred_digits-inl.h"
#include "reference/truth/parameters-inl.h"

namespace normgate {
namespace {

using hundred_digits::T;

constexpr double relative_step = 1e-25;
constexpr double relative_error = 1e-45;

class Movement {
 public:
  Movement(const Problem& problem, const Inputs& inputs, const Direction& direction)
      : problem_(problem),
        inputs_(inputs),
        direction_(direction),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        training_(is_training(problem.phase)),
        affine_(affine_of<T>(problem, inputs)) {}

  [[nodiscard]] Tangent tangent() {
    result_.y.resize(static_cast<std::size_t>(element_count(problem_.shape)));
    result_.kink.assign(static_cast<std::size_t>(groups_.count()), false);
    if (groups_.size() > 0)
      for (std::int64_t q = 0; q < groups_.count(); ++q) difference(q);
    return std::move(result_);
  }

 private:
  [[nodiscard]] double along(Role role, std::size_t i) const {
    return direction_[role].empty() ? 0 : direction_[role][i];
  }

  // The statistics of group q where its elements are x: theirs, or the given ones.
  [[nodiscard]] GroupStatistics<T> statistics_at(std::int64_t q, const Values<T>& x) const {
    if (training_) return own_statistics(problem_, x);
    auto given = given_statistics<T>(problem_, inputs_, groups_, q);
    given.centred = x - given.mean;
    return given;
  }

  // A single centred value has no variance, wherever it moves.
  [[nodiscard]] bool constant_variance() const { return !training_ || (row_.centred && groups_.size() == 1); }

  void difference(std::int64_t q) {
    const auto n = static_cast<std::size_t>(groups_.size());
    std::vector<std::size_t> index(n), channel(n);
    std::size_t next = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      index[next] = static_cast<std::size_t>(i);
      channel[next++] = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
    });
    const Values<T> x = values_of<T>(inputs_[Role::x], groups_, q);
    const GroupStatistics<T> here = statistics_at(q, x);
    const auto magnitude = [](const T& value) { return std::fabs(static_cast<double>(value)); };

    // W, and what the bound is made of.
    double mean = 0;
    for (const std::size_t i : index) mean += along(Role::x, i) / static_cast<double>(n);
    if (!row_.centred || !training_) mean = 0;
    double square = 0, largest_v = 0, largest_hat = 0;
    double gamma = 0, beta = 0, along_gamma = 0, along_beta = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const double v = along(Role::x, index[p]) - mean;
      square += v * v;
      largest_v = std::max(largest_v, std::fabs(v));
      largest_hat = std::max(largest_hat, magnitude(T(here.centred[static_cast<Eigen::Index>(p)] * here.rstd)));
      gamma = std::max(gamma, magnitude(affine_.gamma[channel[p]]));
      beta = std::max(beta, magnitude(affine_.beta[channel[p]]));
      along_gamma = std::max(along_gamma, std::fabs(along(Role::gamma, channel[p])));
      along_beta = std::max(along_beta, std::fabs(along(Role::beta, channel[p])));
    }
    const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    const bool moves = !constant_variance() && square > 0;
    const double width = moves ? std::sqrt(square / static_cast<double>(n_minus_1 ? n - 1 : n)) : 0;
    const bool outside = problem_.convention.eps == EpsPlacement::outside;
    const T eps(problem_.eps);
    auto kink = result_.kink.begin() + q;
    if (!constant_variance() && here.variance == 0 && (outside || problem_.eps == 0)) *kink = true;
    const T deviation = outside && here.variance > 0 ? T(sqrt(here.variance)) : T(T(1) / here.rstd);
    const T h = moves ? T(T(relative_step) * deviation / T(width)) : T(relative_step);
    const double rstd = magnitude(here.rstd);
    const double steepness = moves ? width / magnitude(deviation) : 0;
    // What beta adds is the same at every x^, so at 0 too, where there is none (one value under n-1).
    const bool beta_alone = direction_[Role::x].empty() && direction_[Role::gamma].empty();
    const double scale = beta_alone ? along_beta + beta
                                    : gamma * (rstd * largest_v + largest_hat * steepness) +
                                          along_gamma * (largest_hat + largest_v * (moves ? 1 / width : rstd)) +
                                          along_beta + beta * steepness + (moves ? 0 : gamma * largest_hat + beta);

    const bool floor = !constant_variance() && problem_.convention.eps == EpsPlacement::floor;
    const auto side = [&](const T& variance) { return variance > eps ? 1 : variance < eps ? -1 : 0; };
    if (floor && side(here.variance) == 0) *kink = true;
    const auto moved = [&](const T& step) {
      Values<T> there = x;
      if (!direction_[Role::x].empty())
        for (std::size_t p = 0; p < n; ++p) there[static_cast<Eigen::Index>(p)] += step * T(along(Role::x, index[p]));
      const GroupStatistics<T> statistics = direction_[Role::x].empty() ? here : statistics_at(q, there);
      if (floor && side(statistics.variance) != side(here.variance)) *kink = true;
      for (std::size_t p = 0; p < n; ++p) {
        const std::size_t c = channel[p];
        const auto at = static_cast<Eigen::Index>(p);
        there[at] = affine(beta_alone ? T(0) : statistics.centred[at], beta_alone ? T(1) : statistics.rstd,
                           T(affine_.gamma[c] + step * T(along(Role::gamma, c))),
                           T(affine_.beta[c] + step * T(along(Role::beta, c))));
      }
      return there;
    };
    const Values<T> up = moved(h);
    const Values<T> down = moved(T(-h));
    for (std::size_t p = 0; p < n; ++p) {
      const auto at = static_cast<Eigen::Index>(p);
      const T derivative = (up[at] - down[at]) / (h * 2);
      Exact& exact = result_.y[index[p]];
      exact.hi = static_cast<double>(derivative);
      if (!exact.finite()) continue;
      exact.lo = static_cast<double>(T(derivative - T(exact.hi)));
      exact.bound = 0x1p-105 * std::fabs(exact.hi) + relative_error * scale;
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Direction& direction_;
  const VariantRow& row_;
  Groups groups_;
  bool training_;
  Affine<T> affine_;
  Tangent result_;
};

}  // namespace

Tangent tangent(const Problem& problem, const Inputs& inputs, const Direction& direction) {
  return Movement(problem, inputs, direction).tangent();
}

}  // namespace normgate
