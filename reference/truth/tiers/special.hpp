// The definition's extended-real arithmetic where something is not a finite number. Double does it as the definition
// does at 100 digits: what is NaN or infinite depends on signs and zeros alone, and these are exact here or told to be
// unknown.
#pragma once

#include <cmath>
#include <optional>

#include "reference/truth/exact.hpp"
#include "reference/truth/tiers/scalars.hpp"

namespace normgate::tiers {

inline Certified extended_plus(const Certified& a, const Certified& b) {
  return std::isfinite(a.hi) && std::isfinite(b.hi) ? plus(a, b) : exactly(a.hi + b.hi);
}
// Where b is not finite, a is 0 exactly or far from it.
inline Certified extended_times(const Certified& a, const Certified& b) {
  return std::isfinite(a.hi) && std::isfinite(b.hi) ? times(a, b) : exactly(a.hi * b.hi);
}
inline Certified extended_divided(const Certified& a, double n) {
  return std::isfinite(a.hi) ? divided(a, n) : exactly(a.hi / n);
}

// x - mean in double, with the sign of the true difference, and 0 where that is 0; nothing where the certificate does
// not tell. Two subtractions of low parts err by u of them and of the result.
inline std::optional<double> difference_with_its_sign(double x, const Certified& mean) {
  if (!std::isfinite(x) || !std::isfinite(mean.hi)) return x - mean.hi;
  const Two d = two_sum(x, -mean.hi);
  if (mean.lo == 0 && mean.error == 0) return d.hi;
  const double result = d.hi + (d.lo - mean.lo);
  const double doubt = mean.error + 4 * u * (std::fabs(d.lo) + std::fabs(mean.lo));
  if (!(std::fabs(result) > 2 * doubt)) return std::nullopt;
  return result;
}

}  // namespace normgate::tiers
