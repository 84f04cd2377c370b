// A reference value: an unevaluated sum of two doubles with a proved bound on its distance from the true real number.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "reference/problem/variant.hpp"

namespace normgate {

// |truth - (hi + lo)| <= bound, |lo| at most half a unit in the last place of hi. A true value that is NaN or infinite
// (the definition evaluated in extended reals) has it in hi, with lo = bound = 0.
struct Exact {
  double hi = 0;
  double lo = 0;
  double bound = 0;
  [[nodiscard]] bool finite() const { return std::isfinite(hi); }
};

// value - exact: one rounding of the difference, and one of lo against it.
[[nodiscard]] inline double minus(double value, const Exact& exact) { return (value - exact.hi) - exact.lo; }

// |got - truth|, rounded once or twice; infinite if only one of the two is finite, 0 if both are the same infinity or
// NaN.
[[nodiscard]] inline double distance(double got, const Exact& truth) {
  if (std::isnan(got) && std::isnan(truth.hi)) return 0;
  if (!std::isfinite(got) || !truth.finite()) return got == truth.hi ? 0 : std::numeric_limits<double>::infinity();
  return std::fabs(minus(got, truth));
}

}  // namespace normgate
