// Sums in eight lanes, for one instruction set. u = 2^-53; element i of a chunk of 2^13 is added in lane i mod 8, at
// most N <= 2^10 per lane. A sum takes terms a + b, |b| <= β u |a|, and keeps (s, e) per lane.
//
//  lane  s + a = s' + t exactly, v = RN(t + b), e' = RN(e + v). With A = Σ|a|: |t| <= u|s'| and |s'| <= A (1 + N
//             u), so
//        Σ|v| <= u (N + β) A, roundings of v u² (N + β) A, of e' at most N u Σ|v| = u² N (N + β) A: in all
//        |Σ(a + b) - (s + e)| <= (N + 1)(N + β) u² A (1 + 2^-30) (as in Ogita, Rump & Oishi 2005). Where b = 0 the
//        first of them does not occur, and N² u² A is enough.
//  fold  Eight lanes by a tree of three, chunks one after the other, each addition with 3 u² + 13 u³ of its result
//        (scalars.hpp: add), which is at most A (1 + 2^-30): (9 + 3 C) u² A for C chunks.
//
// So the error of a sum is lane_factor(n, β) u² A, besides what its terms err by.
#if defined(NORMGATE_REFERENCE_TRUTH_TIERS_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMGATE_REFERENCE_TRUTH_TIERS_LANES_INL_H
#undef NORMGATE_REFERENCE_TRUTH_TIERS_LANES_INL_H
#else
#define NORMGATE_REFERENCE_TRUTH_TIERS_LANES_INL_H
#endif

#include <algorithm>

#include "reference/truth/tiers/double_double-inl.h"
#include "reference/truth/tiers/scalars.hpp"

HWY_BEFORE_NAMESPACE();
namespace normgate::tiers {
namespace HWY_NAMESPACE {

constexpr std::int64_t chunk = std::int64_t{1} << 13;
constexpr auto width = static_cast<std::int64_t>(virtual_lanes);

HWY_INLINE double lane_factor(std::int64_t n, double beta) {
  const auto lane = static_cast<double>((std::min(n, chunk) + width - 1) / width);
  const auto chunks = static_cast<double>((n + chunk - 1) / chunk);
  return (beta == 0 ? lane * lane : (lane + 1) * (lane + beta)) + 10 + 3 * chunks;
}

HWY_INLINE void accumulate(Pair& sum, const Eight& a, const Eight& b) {
  const Pair s = two_sum(sum.hi, a);
  sum = {s.hi, sum.lo + (s.lo + b)};
}
HWY_INLINE void accumulate(Pair& sum, const Eight& a) {
  const Pair s = two_sum(sum.hi, a);
  sum = {s.hi, sum.lo + s.lo};
}

// The eight sums hi + lo as one.
HWY_INLINE Two fold(const Pair& sum) {
  HWY_ALIGN double hi[virtual_lanes];
  HWY_ALIGN double lo[virtual_lanes];
  store(sum.hi, hi);
  store(sum.lo, lo);
  Two lane[virtual_lanes];
  for (std::size_t i = 0; i < virtual_lanes; ++i) lane[i] = tiers::two_sum(hi[i], lo[i]);
  for (std::size_t half = virtual_lanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] = tiers::add(lane[i], lane[i + half]);
  return lane[0];
}
// Terms >= 0 in plain double. With N additions per lane and one per chunk it is off by less than 2^-25 of itself
// for n up to 2^40, which `modulus_slack` covers.
inline constexpr double modulus_slack = 1 + 0x1p-20;
HWY_INLINE double fold(const Eight& sum) {
  HWY_ALIGN double lane[virtual_lanes];
  store(sum, lane);
  for (std::size_t half = virtual_lanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::tiers
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
