// From sums to statistics. The mean is c + S/n with S = Σ(x-c) around a rough mean c, so that its error is small
// against the deviations however large c is, and Σ(x-μ)² = Σ(x-c)² - S²/n.
//
// Range: S is 0 or a multiple of 2^-242, so S² and what it errs by are normal numbers. A variance is at most 2^258
// and 0 or at least 2^-530, 1/D at most 2^265 (only for eps = 0) and at least 2^-129 from own values; between
// 2^-149 and 2^149 as given. All products of three of them and their low parts are normal numbers.
#include "reference/truth/tiers/statistics.hpp"

#include <limits>

#include "reference/truth/tiers/sums.hpp"

namespace normgate::tiers {
namespace {

// Whether a certificate is good enough for root() and reciprocal().
bool is_certain(const Certified& a) { return a.hi > 0 && a.error <= a.hi / 8; }

bool is_constant(const float* x, std::int64_t n) {
  if (x[n - 1] != x[0] || x[n / 2] != x[0]) return false;
  for (std::int64_t i = 1; i < n; ++i)
    if (x[i] != x[0]) return false;
  return true;
}

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::optional<Certified> reciprocal_deviation(const Certified& variance, double eps, EpsPlacement placement) {
  if (std::isnan(variance.hi)) return exactly(not_a_number);
  if (variance.hi == infinity) return exactly(0);
  if (variance.hi < 0) {
    if (variance.lo != 0 || variance.error != 0) return std::nullopt;
    if (placement == EpsPlacement::outside) return exactly(not_a_number);
    if (placement == EpsPlacement::floor) return reciprocal_deviation(exactly(0), eps, placement);
    // v + eps is exact as a pair, and its high part has its sign.
    if (variance.hi + eps < 0) return exactly(not_a_number);
    if (variance.hi + eps == 0) return exactly(infinity);
  }
  if (eps == 0 && is_zero(variance)) {
    // The definition distinguishes zeros here.
    if (std::signbit(variance.hi)) return std::nullopt;
    return exactly(infinity);
  }
  Certified d;
  switch (placement) {
    case EpsPlacement::inside:
      d = plus(variance, eps);
      break;
    case EpsPlacement::floor:
      // max(v, eps) moves by no more than v does; hi + lo is above eps iff hi is, or is eps and lo > 0.
      d = variance.hi > eps || (variance.hi == eps && variance.lo > 0)
              ? variance
              : Certified{eps, 0, variance.hi + variance.error >= eps ? variance.error * slack : 0};
      break;
    case EpsPlacement::outside:
      if (!is_zero(variance)) {
        if (!is_certain(variance)) return std::nullopt;
        d = root(variance);
      }
      d = plus(d, eps);
      if (!is_certain(d)) return std::nullopt;
      return reciprocal(d);
  }
  if (!is_certain(d)) return std::nullopt;
  return reciprocal(root(d));
}

// Of x with a value that is not finite. Where a mean is subtracted an infinite value makes inf - inf.
Certified special_sum_of_squares(const float* x, std::int64_t n, bool centred) {
  if (centred) return exactly(not_a_number);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return exactly(sum);
}

}  // namespace

std::optional<Statistics> statistics_of(const float* x, std::int64_t n, bool centred, double eps,
                                        const Convention& convention) {
  const double count = static_cast<double>(n);
  Statistics result;
  if (!all_finite(x, n)) {
    if (centred) result.mean = exactly(rough_sum(x, n) / count);
    result.sum_of_squares = special_sum_of_squares(x, n, centred);
  } else if (!centred) {
    result.sum_of_squares = sum_of_squares(x, n);
  } else if (is_constant(x, n)) {
    result.mean = exactly(static_cast<double>(x[0]));
  } else {
    const double centre = rough_sum(x, n) / count;
    const Moments around = moments(x, n, centre);
    result.mean = shifted(centre, divided(around.sum, count));
    result.sum_of_squares = minus(around.squares, divided(times(around.sum, around.sum), count));
    // What is at least 0 is not further from 0 than from something negative.
    if (result.sum_of_squares.hi < 0) result.sum_of_squares = {0, 0, result.sum_of_squares.error};
  }
  const bool n_minus_1 = centred && convention.normalizing == NormalizingDivisor::n_minus_1;
  if (n_minus_1 && n == 1) {
    if (convention.single == SingleCount::nan) result.variance = exactly(not_a_number);
  } else if (!std::isfinite(result.sum_of_squares.hi)) {
    result.variance = exactly(result.sum_of_squares.hi);
  } else {
    result.variance = divided(result.sum_of_squares, n_minus_1 ? count - 1 : count);
  }
  const auto rstd = reciprocal_deviation(result.variance, eps, convention.eps);
  if (!rstd) return std::nullopt;
  result.rstd = *rstd;
  return result;
}

std::optional<Statistics> statistics_given(const Certified& mean, const Certified& variance, double eps,
                                           EpsPlacement placement) {
  const auto rstd = reciprocal_deviation(variance, eps, placement);
  if (!rstd) return std::nullopt;
  return Statistics{mean, {}, variance, *rstd};
}

Statistics statistics_given_reciprocal(const Certified& mean, float rstd) {
  return {mean, {}, exactly(not_a_number), exactly(static_cast<double>(rstd))};
}

std::optional<Certified> response(const Statistics& statistics, double eps, EpsPlacement placement) {
  const Certified& v = statistics.variance;
  const Certified& r = statistics.rstd;
  const bool reciprocal_alone = std::isnan(v.hi);
  switch (placement) {
    case EpsPlacement::inside:
      break;
    case EpsPlacement::outside: {
      if (!reciprocal_alone) {
        if (is_zero(v) || v.hi == infinity) return exactly(0);
        if (!is_certain(v)) return std::nullopt;
        return reciprocal(root(v));
      }
      // 1/sqrt(v) = r / (1 - r eps), the divisor exactly but for 4u² of itself; its sign is that of the sum, as add()
      // gives 0 for 0 only.
      const Two product = two_product(r.hi, eps);
      const Certified rest = plus(exactly(1), Certified{-product.hi, -product.lo, 0});
      if (rest.hi == 0) return exactly(0);
      const Certified inverse = reciprocal(rest.hi > 0 ? rest : negated(rest));
      return times(r, rest.hi > 0 ? inverse : negated(inverse));
    }
    case EpsPlacement::floor: {
      Certified above;  // its sign is that of v - eps
      if (reciprocal_alone) {
        // r² is exact, a product of floats.
        const Two product = two_product(r.hi * r.hi, eps);
        above = plus(exactly(1), Certified{-product.hi, -product.lo, 0});
        above.error = 0;
      } else {
        above = plus(v, exactly(-eps));
        if (v.error == 0) above.error = 0;
      }
      if (std::isnan(r.hi) || r.hi == 0) break;
      if (above.error != 0 && !(std::fabs(above.hi) > above.error * 2)) return std::nullopt;
      if (!(above.hi > 0)) return exactly(0);
      break;
    }
  }
  return r;
}

std::optional<Certified> slope(const Statistics& statistics, double eps, EpsPlacement placement) {
  const auto s = response(statistics, eps, placement);
  if (!s) return std::nullopt;
  return times(*s, times(statistics.rstd, statistics.rstd));
}

}  // namespace normgate::tiers
