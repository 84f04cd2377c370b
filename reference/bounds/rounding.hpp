// The units that bounds are made of: roundoff, underflow, and the error of a sum.
//
// Bounds are evaluated in double from non-negative quantities, so each evaluation errs by a relative amount below its
// number of operations times 2^-53; every bound is multiplied by a slack that covers it (Slack below).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "reference/problem/claim.hpp"

namespace normgate {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double unit_float32 = 0x1p-24;

// Unit roundoff of round to nearest.
constexpr double unit_roundoff(ScalarType type) { return type == ScalarType::float32 ? 0x1p-24 : 0x1p-53; }

// Largest absolute error of one operation whose result is subnormal: half the spacing, or, where subnormals are
// flushed, the smallest normal number.
constexpr double underflow_unit(ScalarType type, Subnormals subnormals) {
  if (type == ScalarType::float64) return subnormals == Subnormals::kept ? 0x1p-1074 : 0x1p-1022;
  return subnormals == Subnormals::kept ? 0x1p-150 : 0x1p-126;
}

// Largest integer up to which all are representable.
constexpr double exact_integers(ScalarType type) { return type == ScalarType::float32 ? 0x1p24 : 0x1p53; }

// 1 - (1-u)^k and (1+u)^k - 1 are both at most this: k u / (1 - k u) (Higham, Accuracy and Stability, Lemma 3.1).
inline double gamma_factor(double k, double u) { return k * u < 0.5 ? k * u / (1 - k * u) : infinity; }

// (1+a)(1+b)… - 1 for non-negative a, b, …, without losing those below 2^-53.
inline double compound(std::initializer_list<double> factors) {
  double result = 0;
  for (const double factor : factors) result = result + factor + result * factor;
  return result;
}

// |fl(sum) - sum| <= sum_factor * Σ|terms|. Any order has (n-1) u (Rump 2012; Jeannerod & Rump 2013, no restriction on
// n); a tree of known depth also has gamma_depth.
inline double sum_factor(const Sum& sum, std::int64_t n, ScalarType type) {
  if (n <= 1) return 0;
  const double u = unit_roundoff(type);
  return std::min(static_cast<double>(n - 1) * u, gamma_factor(static_cast<double>(depth(sum, n)), u));
}

// The spacing of float32 at `scale`; never that of subnormals (MATH §3).
inline double ulp_float32(double scale) {
  if (!(scale > 0x1p-126)) return 0x1p-149;
  // Its power of two alone, by the exponent's bits.
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(scale) & 0x7FF0000000000000U) * 0x1p-23;
}

}  // namespace normgate
