// The scalar type of the phases' truths, how a value leaves them, and the values before they leave. To be included by
// .cpp files of reference/truth, and by tests that compare more digits than an Exact holds.
//
// T has a precision of p = 334 bits and an exponent range that nothing here leaves; w = 2^-p is its unit roundoff.
// Inputs are float32 (multiples of 2^-149 below 2^128); eps is 0 or a double in [2^-126, 2^126], a multiple of 2^-178.
#pragma once

#include <boost/multiprecision/mpfr.hpp>
#include <vector>

#include "reference/problem/groups.hpp"
#include "reference/truth/backward.hpp"
#include "reference/truth/finite_differences.hpp"

namespace normgate::hundred_digits {

using T =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<100, boost::multiprecision::allocate_stack>,
                                  boost::multiprecision::et_off>;

// `terms` bounds the sum of the moduli of the terms that v is a sum of. hi = RN(v), lo = RN(v - hi): |v - hi - lo| <=
// 2^-53 |lo| <= 2^-106 |hi|, as v - hi is exact in 334 bits; what is left is for the error of v itself.
inline Exact leave(const T& v, double terms) {
  Exact result;
  result.hi = static_cast<double>(v);
  if (!std::isfinite(result.hi)) return result;
  result.lo = static_cast<double>(T(v - T(result.hi)));
  result.bound = 0x1p-105 * std::fabs(result.hi) + 0x1p-255 * terms + (v == 0 && terms == 0 ? 0 : 0x1p-1073);
  return result;
}
inline Exact leave(const T& v) { return leave(v, std::fabs(static_cast<double>(v))); }

inline double magnitude(const T& v) { return std::fabs(static_cast<double>(v)); }
inline std::vector<double> magnitudes(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T& value : values) result.push_back(magnitude(value));
  return result;
}

// Whether the variance of group q's own x is above eps, for a floor. `variance` has a relative error of 2^-293, and
// rounding must not decide. One that is 0 may be so by convention, whatever x is; one that is not a number exceeds
// nothing.
bool exceeds_eps(const Problem& problem, const Inputs& inputs, const Groups& groups, std::int64_t q, const T& variance);

// dx, dgamma and dbeta with all digits: what backward_truth() and finite_differences() round.
using AllDigits = PerRole<std::vector<T>>;
AllDigits backward_digits(const Problem& problem, const Inputs& inputs, SavedUse use);
AllDigits difference_digits(const Problem& problem, const Inputs& inputs, DifferenceOrder order, int step_exponent);

}  // namespace normgate::hundred_digits
