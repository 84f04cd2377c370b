// Error-free transformations in eight virtual lanes of double, for one instruction set. Every target does the same
// operations in the same order, so all give the same bits: element i of a chunk is in lane i mod 8, sums are folded
// by one tree, and the fused multiply-add occurs only where its result is exact (MATH: the low part of a product).
//
// Compiled with -ffp-contract=off: a compiler that fuses the operations below would break their proofs.
#if defined(NORMGATE_REFERENCE_TRUTH_TIERS_DOUBLE_DOUBLE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMGATE_REFERENCE_TRUTH_TIERS_DOUBLE_DOUBLE_INL_H
#undef NORMGATE_REFERENCE_TRUTH_TIERS_DOUBLE_DOUBLE_INL_H
#else
#define NORMGATE_REFERENCE_TRUTH_TIERS_DOUBLE_DOUBLE_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#ifdef HWY_DISABLE_BMI2_FMA
#error "HWY_DISABLE_BMI2_FMA: the low part of a product on AVX2 needs one rounding"
#endif

HWY_BEFORE_NAMESPACE();
namespace normgate::tiers {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t virtual_lanes = 8;
using Doubles = hn::CappedTag<double, virtual_lanes>;
using Floats = hn::Rebind<float, Doubles>;
using Vector = hn::Vec<Doubles>;
inline constexpr std::size_t vector_lanes = HWY_LANES(double) < virtual_lanes ? HWY_LANES(double) : virtual_lanes;
inline constexpr std::size_t parts = virtual_lanes / vector_lanes;

// One double in each lane.
struct Eight {
  Vector part[parts];
};

template <typename F>
HWY_INLINE Eight each(F f) {
  Eight result;
  for (std::size_t p = 0; p < parts; ++p) result.part[p] = f(p);
  return result;
}

HWY_INLINE Eight all(double value) {
  return each([&](std::size_t) HWY_ATTR { return hn::Set(Doubles(), value); });
}
HWY_INLINE Eight load(const float* x) {
  return each([&](std::size_t p)
                  HWY_ATTR { return hn::PromoteTo(Doubles(), hn::LoadU(Floats(), x + p * vector_lanes)); });
}
HWY_INLINE Eight load(const double* x) {
  return each([&](std::size_t p) HWY_ATTR { return hn::LoadU(Doubles(), x + p * vector_lanes); });
}
// The first `count` < 8 elements; zeros behind them. Nothing is read beyond.
HWY_INLINE Eight load_first(const float* x, std::int64_t count) {
  HWY_ALIGN float buffer[virtual_lanes] = {};
  for (std::int64_t i = 0; i < count; ++i) buffer[i] = x[i];
  return load(static_cast<const float*>(buffer));
}
HWY_INLINE void store(const Eight& a, double* x) {
  for (std::size_t p = 0; p < parts; ++p) hn::StoreU(a.part[p], Doubles(), x + p * vector_lanes);
}
// a, b, c of lane 0, then of lane 1, …
HWY_INLINE void store_interleaved(const Eight& a, const Eight& b, const Eight& c, double* x) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t p = 0; p < parts; ++p) {
    x[3 * p] = hn::GetLane(a.part[p]);
    x[3 * p + 1] = hn::GetLane(b.part[p]);
    x[3 * p + 2] = hn::GetLane(c.part[p]);
  }
#else
  for (std::size_t p = 0; p < parts; ++p)
    hn::StoreInterleaved3(a.part[p], b.part[p], c.part[p], Doubles(), x + 3 * p * vector_lanes);
#endif
}
// Zeros in the lanes from `count` on.
HWY_INLINE Eight keep_first(const Eight& a, std::int64_t count) {
  HWY_ALIGN double buffer[virtual_lanes];
  store(a, buffer);
  for (std::size_t i = static_cast<std::size_t>(count); i < virtual_lanes; ++i) buffer[i] = 0;
  return load(static_cast<const double*>(buffer));
}
HWY_INLINE Eight operator+(const Eight& a, const Eight& b) {
  return each([&](std::size_t p) HWY_ATTR { return hn::Add(a.part[p], b.part[p]); });
}
HWY_INLINE Eight operator-(const Eight& a, const Eight& b) {
  return each([&](std::size_t p) HWY_ATTR { return hn::Sub(a.part[p], b.part[p]); });
}
HWY_INLINE Eight operator*(const Eight& a, const Eight& b) {
  return each([&](std::size_t p) HWY_ATTR { return hn::Mul(a.part[p], b.part[p]); });
}
HWY_INLINE Eight abs(const Eight& a) {
  return each([&](std::size_t p) HWY_ATTR { return hn::Abs(a.part[p]); });
}
HWY_INLINE Eight max(const Eight& a, const Eight& b) {
  return each([&](std::size_t p) HWY_ATTR { return hn::Max(a.part[p], b.part[p]); });
}

// An unevaluated sum of two doubles per lane.
struct Pair {
  Eight hi;
  Eight lo;
};

// a + b and a - b where multipliers are idle: 1 a ± b, rounded once, is the same number.
#if HWY_TARGET <= HWY_AVX2  // smaller numbers are better targets; these fuse in hardware
HWY_INLINE Eight fused_plus(const Eight& a, const Eight& b) {
  return each([&](std::size_t p) HWY_ATTR { return hn::MulAdd(a.part[p], hn::Set(Doubles(), 1.0), b.part[p]); });
}
HWY_INLINE Eight fused_minus(const Eight& a, const Eight& b) {
  return each([&](std::size_t p) HWY_ATTR { return hn::MulSub(a.part[p], hn::Set(Doubles(), 1.0), b.part[p]); });
}
#else
HWY_INLINE Eight fused_plus(const Eight& a, const Eight& b) { return a + b; }
HWY_INLINE Eight fused_minus(const Eight& a, const Eight& b) { return a - b; }
#endif

// hi + lo = a + b exactly, hi = RN(a + b) (Knuth 1969; Møller 1965). Six operations, no condition but no overflow; half
// of them go to the multipliers, as sums are all that most of this tier does.
HWY_INLINE Pair two_sum(const Eight& a, const Eight& b) {
  const Eight s = a + b;
  const Eight bb = s - a;
  return {s, fused_plus(a - fused_minus(s, bb), fused_minus(b, bb))};
}
// The same where |a| >= |b| or a = 0 (Dekker 1971).
HWY_INLINE Pair quick_two_sum(const Eight& a, const Eight& b) {
  const Eight s = a + b;
  return {s, b - (s - a)};
}

#if HWY_TARGET <= HWY_AVX2  // smaller numbers are better targets; these fuse in hardware
HWY_INLINE Eight product_error(const Eight& a, const Eight& b, const Eight& p) {
  return each([&](std::size_t i) HWY_ATTR { return hn::MulSub(a.part[i], b.part[i], p.part[i]); });
}
#else
// Veltkamp's split by 2^27 + 1 and Dekker's product: the same number, exactly.
HWY_INLINE Pair split(const Eight& a) {
  const Eight c = a * all(134217729.0);
  const Eight high = c - (c - a);
  return {high, a - high};
}
HWY_INLINE Eight product_error(const Eight& a, const Eight& b, const Eight& p) {
  const Pair x = split(a);
  const Pair y = split(b);
  return (((x.hi * y.hi - p) + x.hi * y.lo) + x.lo * y.hi) + x.lo * y.lo;
}
#endif
// hi + lo = a b exactly, hi = RN(a b), where no part is subnormal or overflows.
HWY_INLINE Pair two_product(const Eight& a, const Eight& b) {
  const Eight p = a * b;
  return {p, product_error(a, b, p)};
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::tiers
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
