// Let the variance be v(tau) along the direction. With S² = v + eps (inside), v (outside; as a floor, above it):
//
//   v(tau) [+ eps] = S² (1 + 2 a tau + b tau²),   b = Σ v~²/N_v,   |a| <= sqrt(b) by Cauchy-Schwarz,
//
// and f(tau) = (A + tau S E) / D(tau) + const with A = Σ g d and E = Σ g v~, since Σ d v = Σ d v~.
//
// inside, floor   1/D = (1/S) Σ_k P_k(-a/sqrt(b)) (sqrt(b) tau)^k with Legendre polynomials, none above 1 in modulus:
//                 the k-th coefficient of 1/D is at most r β^k, β = sqrt(b).
// outside         D/S = q + e with q = sqrt(1 + 2 a tau + b tau²) and e = eps/S >= 0. For |tau| <= 1/(2 sqrt(b)) each
// of
//                 q²'s two factors 1 - tau/ζ, |ζ| = 1/sqrt(b), is within 1/2 of 1, so that |q| >= 1/2 and |arg q| <=
//                 30°: |q + e| >= Re q + e >= 0.433 (1 + e). By Cauchy's estimate on that circle the k-th coefficient
//                 of 1/D is at most 2.31 r (2 sqrt(b))^k.
//
// So the k-th coefficient of f is at most C r (|A| β^k + S |E| β^(k-1)). The quotient is exact up to order 4; of the
// odd orders k >= 5 it gives (16 - 2^(k+1)) / 12 times the coefficient times t^(k-1), in modulus at most (2t)^(k-1) /
// 3, and none of the even ones. Summed, with z = 2 t β < 1:
//
//   |error| <= C r (|A| β + S |E|) z^4 / (3 (1 - z²)), over S for the derivative by x.
//
// A floor: sqrt(v(tau)) is within S β |tau| of sqrt(v), so that it stays on its side of sqrt(eps) if it is further than
// S z away; below the floor 1/D is constant, and f is linear.
#include "reference/bounds/differences.hpp"

#include <cmath>

#include "reference/bounds/rounding.hpp"

namespace normgate {

double truncation_bound(const DirectionTerms& terms, double t) {
  if (terms.constant) return 0;
  const bool outside = terms.placement == EpsPlacement::outside;
  // The last factor covers the roundings of double here, and of what the terms were computed by.
  constexpr double slack = 1 + 0x1p-40;
  const double beta = (outside ? 2 : 1) * terms.steepness * slack;
  const double z = 2 * t * beta;
  if (!(z < 1) || !(terms.unit > 0)) return infinity;
  if (outside && !(terms.deviation > 0)) return infinity;
  if (terms.placement == EpsPlacement::floor) {
    const double root = std::sqrt(terms.eps);
    const double reach = terms.unit * z * slack + 0x1p-40 * (root + terms.deviation);
    if (std::fabs(terms.deviation - root) <= reach) return infinity;
    if (terms.deviation < root) return 0;
  }
  const double c = outside ? 2.31 : 1;
  const double first = c * terms.rstd * (terms.of_values * beta + terms.unit * terms.of_motion);
  return first * std::pow(z, 4) / (3 * (1 - z * z)) / terms.unit * slack;
}

}  // namespace normgate
