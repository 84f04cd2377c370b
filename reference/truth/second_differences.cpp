// Central differences of the forward definition at 160 digits, in two arguments. What is shared with the closed form is
// how inputs are read (parameters-inl.h); derivatives, of either order, are nowhere.
//
// With F = sum of dy y as a function of x, gamma and beta, the L of double_backward is dF/dtau of moving all three by
// tau (ddx, ddgamma, ddbeta), at tau = 0. So
//
//   ddy_i = dy_i/dtau,   dx_j = d²F/(dtau dx_j),   dgamma_c = d²F/(dtau dgamma_c),
//
// by (y(k) - y(-k)) / 2k and (F(h,k) - F(h,-k) - F(-h,k) + F(-h,-k)) / 4hk. beta moves y by tau ddbeta whatever it is.
//
// Why `bound` holds. Let v be ddx less its mean over the group where the row is centred, W² = sum v² / N_v, and S the
// deviation: D, or sqrt(variance) for eps outside the root. Steps are h = t S for x_j, k = t K for tau with K = S/W (K
// = S where W is 0, gamma moves by t), t = 10^-25. Moving x by S xi e_j + K tau v turns variance + eps into S² times a
// quadratic in (xi, tau) whose value for real arguments lies between 0 and (1 + |xi| + |tau|)²; along each line through
// 0 the coefficients of 1/D are at most r (Legendre polynomials, finite_differences.cpp; times 2^m for order m outside
// the root), so that by polarization those of xi^p tau^q are at most r 2^m (p+q)^m/m!, m = p+q <= 4: below 200 r. x -
// mean is linear, S r <= 1, so that the coefficients of third and fourth order of y_i are at most 1000 Y_i, Y_i =
// (|gamma| + K |ddgamma|) (|x^| + 1 + K |v_i| r), and those beyond matter t² times less, thousands at most. The error
// of the quotients is t² times as much over K for ddy, sums of |dy| Y over S K for dx and over K for dgamma: below
// 10^-46 of Y/K and so on. F is rounded by 10^-150 of its terms, which |gamma x r| and kappa up to 10^9 make 10^-140 of
// Y, and over hk that is 10^-90. 10^-45 covers all.
#include <algorithm>
#include <boost/multiprecision/eigen.hpp>

#include "reference/truth/hundred_digits-inl.h"
#include "reference/truth/parameters-inl.h"
#include "reference/truth/second_order.hpp"

namespace normgate {
namespace {

using Wide =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<160, boost::multiprecision::allocate_stack>,
                                  boost::multiprecision::et_off>;

double modulus(const Wide& value) { return std::fabs(static_cast<double>(value)); }

class SecondWitness {
 public:
  SecondWitness(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        inputs_(inputs),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        eps_(problem.eps),
        step_(pow(Wide(10), -25)),
        affine_(affine_of<Wide>(problem, inputs)) {}

  [[nodiscard]] Differences run() {
    const auto elements = static_cast<std::size_t>(element_count(problem_.shape));
    result_.out[Role::ddy].resize(elements);
    result_.out[Role::dx].resize(elements);
    result_.kink.assign(static_cast<std::size_t>(groups_.count()), false);
    dgamma_.assign(problem_.gamma ? affine_.gamma.size() : 0, Wide(0));
    dgamma_scale_.assign(dgamma_.size(), 0.0);
    if (groups_.size() > 0)
      for (std::int64_t q = 0; q < groups_.count(); ++q) difference(q);
    for (std::size_t c = 0; c < dgamma_.size(); ++c)
      result_.out[Role::dgamma].push_back(exact(dgamma_[c], dgamma_scale_[c]));
    return std::move(result_);
  }

 private:
  static Exact exact(const Wide& value, double scale) {
    Exact result;
    result.hi = static_cast<double>(value);
    if (!result.finite()) return result;
    result.lo = static_cast<double>(Wide(value - Wide(result.hi)));
    result.bound = 0x1p-105 * std::fabs(result.hi) + 1e-45 * scale;
    return result;
  }

  void difference(std::int64_t q) {
    const auto n = static_cast<std::size_t>(groups_.size());
    std::vector<std::size_t> index, channel;
    std::vector<Wide> dy, gamma, along_x, along_gamma, along_beta;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      index.push_back(static_cast<std::size_t>(i));
      channel.push_back(static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at)));
      dy.emplace_back(inputs_[Role::dy][index.back()]);
      gamma.push_back(affine_.gamma[channel.back()]);
      along_x.emplace_back(inputs_[Role::ddx][index.back()]);
      along_gamma.emplace_back(problem_.gamma ? inputs_[Role::ddgamma][channel.back()] : 0.0F);
      along_beta.emplace_back(problem_.beta ? inputs_[Role::ddbeta][channel.back()] : 0.0F);
    });
    const Values<Wide> x = values_of<Wide>(inputs_[Role::x], groups_, q);
    const GroupStatistics<Wide> here = own_statistics(problem_, x);

    const bool outside = problem_.convention.eps == EpsPlacement::outside;
    const bool constant_variance = row_.centred && n == 1;  // wherever the value moves
    const bool floor = problem_.convention.eps == EpsPlacement::floor && !constant_variance;
    const auto side = [&](const Wide& variance) { return variance > eps_ ? 1 : variance < eps_ ? -1 : 0; };
    bool kink = !constant_variance && here.variance == 0 && (outside || eps_ == 0);
    kink = kink || (floor && side(here.variance) == 0);

    // S, W and K.
    const Wide deviation = outside && here.variance > 0 ? Wide(sqrt(here.variance)) : Wide(Wide(1) / here.rstd);
    Wide mean(0);
    for (const Wide& u : along_x) mean += u / Wide(n);
    if (!row_.centred) mean = 0;
    Wide squares(0);
    for (const Wide& u : along_x) squares += Wide((u - mean) * (u - mean));
    const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    const Wide width =
        constant_variance || squares == 0 ? Wide(0) : Wide(sqrt(Wide(squares / Wide(n_minus_1 ? n - 1 : n))));
    const Wide reach = width > 0 ? Wide(deviation / width) : deviation;
    const Wide k = step_ * reach;

    // y where x_j, if any, is moved by `by` and everything by tau along the second cotangents; gamma_c by `by_gamma`.
    const auto moved = [&](const Wide& tau, std::size_t j, const Wide& by) {
      Values<Wide> there = x;
      for (std::size_t p = 0; p < n; ++p) there[static_cast<Eigen::Index>(p)] += tau * along_x[p];
      if (j < n) there[static_cast<Eigen::Index>(j)] += by;
      GroupStatistics<Wide> statistics = own_statistics(problem_, there);
      if (floor && side(statistics.variance) != side(here.variance)) kink = true;
      return statistics;
    };
    const auto y_at = [&](const GroupStatistics<Wide>& s, const Wide& tau, std::size_t p, const Wide& by_gamma) {
      return affine(s.centred[static_cast<Eigen::Index>(p)], s.rstd, Wide(gamma[p] + tau * along_gamma[p] + by_gamma),
                    Wide(tau * along_beta[p]));
    };

    // Y of the bound.
    std::vector<double> size(n);
    double sum_of_sizes = 0;
    const double reach_modulus = modulus(reach);
    const double rstd = modulus(here.rstd);
    for (std::size_t p = 0; p < n; ++p) {
      size[p] = (modulus(gamma[p]) + reach_modulus * modulus(along_gamma[p])) *
                (modulus(here.centred[static_cast<Eigen::Index>(p)]) * rstd + 1 +
                 reach_modulus * modulus(along_x[p] - mean) * rstd);
      sum_of_sizes += modulus(dy[p]) * size[p];
    }

    const GroupStatistics<Wide> up = moved(k, n, Wide(0));
    const GroupStatistics<Wide> down = moved(Wide(-k), n, Wide(0));
    for (std::size_t p = 0; p < n; ++p) {
      const Wide derivative = (y_at(up, k, p, Wide(0)) - y_at(down, Wide(-k), p, Wide(0))) / (k * 2);
      result_.out[Role::ddy][index[p]] = exact(derivative, size[p] / reach_modulus + modulus(along_beta[p]));
      if (!problem_.gamma) continue;
      Wide second(0);
      for (const int sign : {1, -1}) {
        const Wide by = step_ * sign;
        second += (y_at(up, k, p, by) - y_at(down, Wide(-k), p, by)) * sign;
      }
      dgamma_[channel[p]] += dy[p] * second / (step_ * k * 4);
      const double unit = modulus(here.centred[static_cast<Eigen::Index>(p)]) * rstd + 1 +
                          reach_modulus * modulus(along_x[p] - mean) * rstd;
      dgamma_scale_[channel[p]] += modulus(dy[p]) * (unit + size[p]) / reach_modulus;
    }

    const Wide h = step_ * deviation;
    for (std::size_t j = 0; j < n; ++j) {
      Wide second(0);
      for (const int sign : {1, -1})
        for (const int other : {1, -1}) {
          const Wide tau = k * other;
          const GroupStatistics<Wide> at = moved(tau, j, Wide(h * sign));
          Wide sum(0);
          for (std::size_t p = 0; p < n; ++p) sum += dy[p] * y_at(at, tau, p, Wide(0));
          second += sum * (sign * other);
        }
      result_.out[Role::dx][index[j]] =
          exact(Wide(second / (h * k * 4)), sum_of_sizes / (modulus(deviation) * reach_modulus));
    }
    result_.kink[static_cast<std::size_t>(q)] = kink;
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const VariantRow& row_;
  Groups groups_;
  Wide eps_;
  Wide step_;
  Affine<Wide> affine_;
  std::vector<Wide> dgamma_;
  std::vector<double> dgamma_scale_;
  Differences result_;
};

}  // namespace

Differences second_differences(const Problem& problem, const Inputs& inputs) {
  return SecondWitness(problem, inputs).run();
}

}  // namespace normgate
