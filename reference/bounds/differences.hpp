// How far a central difference quotient of order 4 of the forward's definition may be from its derivative: what
// differences of a kernel's own forward need to be judged, beside what its rounding does to them.
#pragma once

#include "reference/problem/data.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/forward.hpp"

namespace normgate {

// A direction within a group, as f(tau) = Σ dy y(x + tau S v) sees it. v is -1, 0 or 1.
struct DirectionTerms {
  double unit = 0;       // S: the deviation D, or sqrt(v) for eps outside the root; steps are h = t S
  double rstd = 0;       // 1/D
  double of_values = 0;  // at least |Σ g d|, g = dy·gamma, d = x - mean
  double of_motion = 0;  // at least |Σ g v~|, v~ = v less its mean where the row is centred
  double steepness = 0;  // sqrt(b), b = Σ v~² / N_v
  double deviation = 0;  // sqrt(v)
  double eps = 0;
  EpsPlacement placement{};
  bool constant = false;  // 1/D does not move: given statistics, a single centred value
};

// At least |(8 (f(t) - f(-t)) - (f(2t) - f(-2t))) / 12t - f'(0)| / S: the error of the difference quotient as a
// derivative by x. Infinite where it is not known, and where the forward may have a kink between the steps.
[[nodiscard]] double truncation_bound(const DirectionTerms& terms, double t);

}  // namespace normgate
