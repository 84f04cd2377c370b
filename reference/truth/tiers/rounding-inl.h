// Rounds eight values of float32 with their certificates, for one instruction set: RN of both ends of an enclosure.
//
// v lies within `bound` of h + l. With R = bound + 1.01 u|h|, u = 2^-53, a = RN(h + RN(l - R)): the roundings err by at
// most u|l - R| + u|a|, and |a| <= |h| + |l| + R (up to relative u), so that a <= h + l - bound if
//
//   0.01 u|h| + (bound's share of what follows) >= u(2|l| + 2R).
//
// The caller puts 2u|l| into the bound where |l| may be larger than u|h|; 2u R is 2u bound, which its `slack` of 2^-30
// covers, and 2.1 u²|h|. The same above with c. So v lies between a and c, and where both round to one float32 that is
// RN(v), since rounding is monotonic. Else v is within about 2u|h| of a midpoint.
#if defined(NORMGATE_REFERENCE_TRUTH_TIERS_ROUNDING_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMGATE_REFERENCE_TRUTH_TIERS_ROUNDING_INL_H
#undef NORMGATE_REFERENCE_TRUTH_TIERS_ROUNDING_INL_H
#else
#define NORMGATE_REFERENCE_TRUTH_TIERS_ROUNDING_INL_H
#endif

#include <bit>
#include <cstring>

#include "reference/truth/tiers/double_double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::tiers {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
constexpr bool demotes_by_clamping = true;  // Highway 1.0.3: an infinity would come out as the largest float
#else
constexpr bool demotes_by_clamping = false;
#endif

// A bit for each lane that is not decided.
HWY_INLINE unsigned round(const Pair& value, const Eight& bound, float* HWY_RESTRICT y) {
  const Eight reach = bound + abs(value.hi) * all(0x1.03p-53);
  const Eight a = value.hi + (value.lo - reach);
  const Eight c = value.hi + (value.lo + reach);
  unsigned undecided = 0;
  for (std::size_t p = 0; p < parts; ++p) {
    float* out = y + p * vector_lanes;
    if constexpr (demotes_by_clamping) {
      HWY_ALIGN double low[vector_lanes];
      HWY_ALIGN double high[vector_lanes];
      hn::Store(a.part[p], Doubles(), low);
      hn::Store(c.part[p], Doubles(), high);
      for (std::size_t i = 0; i < vector_lanes; ++i) {
        out[i] = static_cast<float>(low[i]);
        if (!(out[i] == static_cast<float>(high[i]))) undecided |= 1U << (p * vector_lanes + i);
      }
    } else {
      const auto low = hn::DemoteTo(Floats(), a.part[p]);
      const auto high = hn::DemoteTo(Floats(), c.part[p]);
      hn::StoreU(low, Floats(), out);
      std::uint8_t bits[8] = {};
      hn::StoreMaskBits(Floats(), hn::Eq(low, high), bits);  // NaN is not decided; Ne differs in that between targets
      undecided |= (~static_cast<unsigned>(bits[0]) & ((1U << vector_lanes) - 1)) << (p * vector_lanes);
    }
  }
  return undecided;
}

// Leaves the first `count` of the eight at y + i and the positions that are not decided behind the `open` ones that
// `undecided` has; returns how many it has then.
HWY_INLINE std::int64_t round_eight(const Pair& value, const Eight& bound, std::int64_t i, std::int64_t count,
                                    float* HWY_RESTRICT y, std::int64_t* undecided, std::int64_t open) {
  unsigned bits = 0;
  if (HWY_LIKELY(count == static_cast<std::int64_t>(virtual_lanes))) {
    bits = round(value, bound, y + i);
  } else {
    float last[virtual_lanes];
    bits = round(value, bound, last) & ((1U << count) - 1);
    std::memcpy(y + i, last, static_cast<std::size_t>(count) * sizeof(float));
  }
  for (; HWY_UNLIKELY(bits != 0); bits &= bits - 1) undecided[open++] = i + std::countr_zero(bits);
  return open;
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::tiers
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
