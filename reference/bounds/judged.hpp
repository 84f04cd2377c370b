// Enters a bound where an element is judged at all.
#pragma once

#include <algorithm>
#include <cmath>

#include "reference/bounds/forward.hpp"

namespace normgate::bounds {

// `judged`: a bound is known. NaN is demanded where the definition gives it, and nothing is judged that may overflow.
inline void enter(Bounds& bounds, const Truth& truth, Role role, std::size_t at, double tolerance, double scale,
                  bool judged) {
  if (truth.out[role].empty()) return;
  const Exact& exact = truth.out[role][at];
  bounds.scale[role][at] = std::max(0x1p-126, scale);  // also where scale is NaN
  if (!judged) return;
  if (std::isnan(exact.hi)) {
    bounds.tolerance[role][at] = 0;
  } else if (exact.finite() && std::fabs(exact.hi) + tolerance < 0x1.fffffep127) {
    bounds.tolerance[role][at] = tolerance;
  }
}

}  // namespace normgate::bounds
