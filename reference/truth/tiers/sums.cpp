// The sums of a group's own statistics, in lanes as lanes-inl.h says. u = 2^-53.
//
//  sum      x - c = h + l exactly, |l| <= u |h|: β = 1, and A = Σ|h| <= sqrt(n Σ(x - c)²) (1 + 2u) by
//             Cauchy-Schwarz.
//  squares  (h + l)² = h² + 2 h l + l². h² = p + q exactly; RN(2 h l) errs by 2 u² p (1 + 4 u), q + that by u (u +
//             2 u
//           (1 + u)) p, l² <= u² p (1 + u) is left out: 6.1 u² p. The low part is at most 3.1 u p: β = 3.1. All p
//             >= 0,
//           so A is the result itself, but for 2^-40 of it. Around 0 the squares are exact (48 bits): β = 0.
//
// Range: a sum of inputs is a multiple of 2^-149, so its quotient c by n <= 2^40 is 0 or at least 2^-189, and c, h
// and l are multiples of 2^-242; |h| < 2^130. So squares and their low parts are multiples of 2^-484, and sums of
// them are below 2^300.
#include "reference/truth/tiers/sums.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/truth/tiers/sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reference/truth/tiers/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::tiers {
namespace HWY_NAMESPACE {

// 0 x is 0 or NaN, and a NaN stays in a sum.
bool AllFinite(const float* HWY_RESTRICT x, std::int64_t n) {
  const Floats floats;
  auto zeros = hn::Zero(floats);
  constexpr auto lanes = static_cast<std::int64_t>(vector_lanes);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) zeros = hn::Add(zeros, hn::Mul(hn::LoadU(floats, x + i), hn::Zero(floats)));
  HWY_ALIGN float lane[vector_lanes];
  hn::Store(zeros, floats, lane);
  float rest = 0;
  for (std::size_t p = 0; p < vector_lanes; ++p) rest += lane[p];
  for (; i < n; ++i) rest += x[i] * 0.0F;
  return rest == 0;
}

double RoughSum(const float* HWY_RESTRICT x, std::int64_t n) {
  constexpr std::int64_t ways = 4;
  Eight sum[ways] = {all(0), all(0), all(0), all(0)};
  std::int64_t i = 0;
  for (; i + ways * width <= n; i += ways * width)
    for (std::int64_t w = 0; w < ways; ++w) sum[w] = sum[w] + load(x + i + w * width);
  for (; i + width <= n; i += width) sum[0] = sum[0] + load(x + i);
  if (i < n) sum[1] = sum[1] + load_first(x + i, n - i);
  return fold((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

Moments CentredMoments(const float* HWY_RESTRICT x, std::int64_t n, double centre) {
  const Eight minus_centre = all(-centre);
  Two sum{0, 0};
  Two squares{0, 0};
  for (std::int64_t begin = 0; begin < n; begin += chunk) {
    const std::int64_t end = std::min(n, begin + chunk);
    Pair s{all(0), all(0)};
    Pair ss{all(0), all(0)};
    const auto take = [&](const Pair& d) HWY_ATTR {
      const Pair square = two_product(d.hi, d.hi);
      accumulate(s, d.hi, d.lo);
      accumulate(ss, square.hi, square.lo + (d.hi + d.hi) * d.lo);
    };
    std::int64_t i = begin;
    for (; i + width <= end; i += width) take(two_sum(load(x + i), minus_centre));
    if (i < end) {
      const Pair d = two_sum(load_first(x + i, end - i), minus_centre);
      take({keep_first(d.hi, end - i), keep_first(d.lo, end - i)});
    }
    sum = tiers::add(sum, fold(s));
    squares = tiers::add(squares, fold(ss));
  }
  const double squares_error = (lane_factor(n, 3.1) + 6.1) * u * u * squares.hi * slack;
  const double modulus = std::sqrt(static_cast<double>(n) * (squares.hi + squares_error));
  return {{sum.hi, sum.lo, lane_factor(n, 1) * u * u * modulus * slack}, {squares.hi, squares.lo, squares_error}};
}

Certified SumOfSquares(const float* HWY_RESTRICT x, std::int64_t n) {
  Two total{0, 0};
  for (std::int64_t begin = 0; begin < n; begin += chunk) {
    const std::int64_t end = std::min(n, begin + chunk);
    Pair sum{all(0), all(0)};
    std::int64_t i = begin;
    for (; i + width <= end; i += width) {
      const Eight v = load(x + i);
      accumulate(sum, v * v);
    }
    if (i < end) {
      const Eight v = load_first(x + i, end - i);
      accumulate(sum, v * v);
    }
    total = tiers::add(total, fold(sum));
  }
  return {total.hi, total.lo, lane_factor(n, 0) * u * u * total.hi * slack};
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::tiers
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::tiers {

HWY_EXPORT(AllFinite);
HWY_EXPORT(RoughSum);
HWY_EXPORT(CentredMoments);
HWY_EXPORT(SumOfSquares);

bool all_finite(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(AllFinite)(x, n); }
double rough_sum(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(RoughSum)(x, n); }
Moments moments(const float* x, std::int64_t n, double centre) {
  return HWY_DYNAMIC_DISPATCH(CentredMoments)(x, n, centre);
}
Certified sum_of_squares(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, n); }

}  // namespace normgate::tiers
#endif
