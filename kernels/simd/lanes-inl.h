// What all patterns are made of, for one instruction set: sums in 16 lanes, and the affine map of a run of memory.
// patterns.hpp states the order of operations that every function here keeps to.
#if defined(NORMGATE_KERNELS_SIMD_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMGATE_KERNELS_SIMD_LANES_INL_H
#undef NORMGATE_KERNELS_SIMD_LANES_INL_H
#else
#define NORMGATE_KERNELS_SIMD_LANES_INL_H
#endif

#include <hwy/highway.h>

#include "kernels/simd/patterns.hpp"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using Floats = hn::Rebind<float, Doubles>;  // as many floats as a vector has doubles
using Vector = hn::Vec<Doubles>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(HWY_LANES(double));
constexpr std::int64_t vectors = sum_lanes / lanes;
static_assert(!HWY_HAVE_SCALABLE && vectors * lanes == sum_lanes && widest % lanes == 0);

HWY_INLINE Vector load(const float* x) { return hn::PromoteTo(Doubles(), hn::LoadU(Floats(), x)); }

HWY_INLINE void store(Vector value, float* y) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // DemoteTo of these targets clamps (Highway 1.0.3): an infinity would come out as the largest float.
  HWY_ALIGN double wide[lanes];
  hn::Store(value, Doubles(), wide);
  for (std::int64_t i = 0; i < lanes; ++i) y[i] = static_cast<float>(wide[i]);
#else
  hn::StoreU(hn::DemoteTo(Floats(), value), Floats(), y);
#endif
}

HWY_INLINE double total(double* lane) {
  for (std::int64_t half = sum_lanes / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// Partial sums of one group. Of the calls for a group, only the last may have a count that is no multiple of 16.
struct Sum {
  HWY_ALIGN double lane[sum_lanes] = {};

  HWY_INLINE void add(const float* HWY_RESTRICT x, std::int64_t count) {
    Vector sum[vectors];
    for (std::int64_t v = 0; v < vectors; ++v) sum[v] = hn::Load(Doubles(), lane + v * lanes);
    std::int64_t i = 0;
    for (; i + sum_lanes <= count; i += sum_lanes)
      for (std::int64_t v = 0; v < vectors; ++v) sum[v] = hn::Add(sum[v], load(x + i + v * lanes));
    for (std::int64_t v = 0; v < vectors; ++v) hn::Store(sum[v], Doubles(), lane + v * lanes);
    for (std::int64_t j = 0; i + j < count; ++j) lane[j] += static_cast<double>(x[i + j]);
  }

  // Squares of x - mean.
  HWY_INLINE void add_squares(const float* HWY_RESTRICT x, std::int64_t count, double mean) {
    const Vector m = hn::Set(Doubles(), mean);
    Vector sum[vectors];
    for (std::int64_t v = 0; v < vectors; ++v) sum[v] = hn::Load(Doubles(), lane + v * lanes);
    std::int64_t i = 0;
    for (; i + sum_lanes <= count; i += sum_lanes)
      for (std::int64_t v = 0; v < vectors; ++v) {
        const Vector d = hn::Sub(load(x + i + v * lanes), m);
        sum[v] = hn::Add(sum[v], hn::Mul(d, d));
      }
    for (std::int64_t v = 0; v < vectors; ++v) hn::Store(sum[v], Doubles(), lane + v * lanes);
    for (std::int64_t j = 0; i + j < count; ++j) {
      const double d = static_cast<double>(x[i + j]) - mean;
      lane[j] += d * d;
    }
  }
};

// gamma or beta along a run: `values` with `offset` added to each, or one value if `values` is nullptr.
struct Along {
  const float* values = nullptr;
  double offset = 0;
  double value = 0;
  HWY_INLINE Vector vector(std::int64_t i) const { return hn::Add(load(values + i), hn::Set(Doubles(), offset)); }
  HWY_INLINE double scalar(std::int64_t i) const {
    return values == nullptr ? value : static_cast<double>(values[i]) + offset;
  }
};
HWY_INLINE Along gamma_along(const Job& job, const Pointers& p, const Axis& axis) {
  if (p.at[GAMMA] == nullptr) return {nullptr, 0, 1};
  if (axis.contiguous(GAMMA)) return {p.at[GAMMA], job.gamma_offset, 0};
  return {nullptr, 0, static_cast<double>(*p.at[GAMMA]) + job.gamma_offset};
}
HWY_INLINE Along beta_along(const Pointers& p, const Axis& axis) {
  if (p.at[BETA] == nullptr) return {nullptr, 0, 0};
  if (axis.contiguous(BETA)) return {p.at[BETA], 0, 0};
  return {nullptr, 0, static_cast<double>(*p.at[BETA])};
}

template <bool gamma_varies, bool beta_varies>
HWY_INLINE void normalize_as(const float* x, float* y, std::int64_t count, double mean, double rstd, const Along& gamma,
                             const Along& beta) {
  const Vector m = hn::Set(Doubles(), mean);
  const Vector r = hn::Set(Doubles(), rstd);
  const Vector fixed_gamma = hn::Set(Doubles(), gamma.value);
  const Vector fixed_beta = hn::Set(Doubles(), beta.value);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Vector standard = hn::Mul(hn::Sub(load(x + i), m), r);
    const Vector scaled = hn::Mul(standard, gamma_varies ? gamma.vector(i) : fixed_gamma);
    store(hn::Add(scaled, beta_varies ? beta.vector(i) : fixed_beta), y + i);
  }
  for (; i < count; ++i)
    y[i] = static_cast<float>((static_cast<double>(x[i]) - mean) * rstd * gamma.scalar(i) + beta.scalar(i));
}

// `count` neighbours of one group; x and y may be the same.
HWY_INLINE void normalize_run(const float* x, float* y, std::int64_t count, double mean, double rstd,
                              const Along& gamma, const Along& beta) {
  if (gamma.values != nullptr) {
    if (beta.values != nullptr)
      normalize_as<true, true>(x, y, count, mean, rstd, gamma, beta);
    else
      normalize_as<true, false>(x, y, count, mean, rstd, gamma, beta);
  } else {
    if (beta.values != nullptr)
      normalize_as<false, true>(x, y, count, mean, rstd, gamma, beta);
    else
      normalize_as<false, false>(x, y, count, mean, rstd, gamma, beta);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
