// What patterns are made of whose vectors run across sums, for one instruction set: neighbours in memory belong to
// different columns. patterns.hpp states the order of operations that every function here keeps to.
#if defined(NORMGATE_KERNELS_SIMD_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMGATE_KERNELS_SIMD_COLUMNS_INL_H
#undef NORMGATE_KERNELS_SIMD_COLUMNS_INL_H
#else
#define NORMGATE_KERNELS_SIMD_COLUMNS_INL_H
#endif

#include "kernels/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

// The 16 partial sums of up to 64 columns: 8 KiB, so that each step reads 256 neighbouring bytes and all sums stay in
// the first-level cache.
struct Sums {
  HWY_ALIGN double lane[sum_lanes][widest];

  HWY_INLINE explicit Sums(std::int64_t width) {
    for (auto& row : lane)
      for (std::int64_t c = 0; c < width; ++c) row[c] = 0;
  }
  HWY_INLINE void total(std::int64_t width, double* result) {
    for (std::int64_t half = sum_lanes / 2; half > 0; half /= 2)
      for (std::int64_t i = 0; i < half; ++i)
        for (std::int64_t c = 0; c < width; ++c) lane[i][c] += lane[i + half][c];
    for (std::int64_t c = 0; c < width; ++c) result[c] = lane[0][c];
  }
};

// One element of each column, to its sums of dy and dy * xh.
HWY_INLINE void add_pair(const float* x, const float* dy, std::int64_t width, const double* mean, const double* rstd,
                         double* HWY_RESTRICT plain, double* HWY_RESTRICT product) {
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) {
    const Vector d = hn::Sub(load(x + c), hn::Load(Doubles(), mean + c));
    const Vector term = load(dy + c);
    const Vector scaled = hn::Mul(term, hn::Mul(d, hn::Load(Doubles(), rstd + c)));
    hn::Store(hn::Add(hn::Load(Doubles(), plain + c), term), Doubles(), plain + c);
    hn::Store(hn::Add(hn::Load(Doubles(), product + c), scaled), Doubles(), product + c);
  }
  for (; c < width; ++c) {
    const auto term = static_cast<double>(dy[c]);
    plain[c] += term;
    product[c] += term * ((static_cast<double>(x[c]) - mean[c]) * rstd[c]);
  }
}

// dx of one element of each column; dx may be dy.
HWY_INLINE void gradients_row(const float* x, const float* dy, float* dx, std::int64_t width,
                              const GradientScalars& scalars, const double* gamma) {
  std::int64_t c = 0;
  if (scalars.slope == nullptr) {
    for (; c + lanes <= width; c += lanes) {
      const Vector g = hn::Mul(load(dy + c), hn::Load(Doubles(), gamma + c));
      store(hn::Mul(g, hn::Load(Doubles(), scalars.rstd + c)), dx + c);
    }
    for (; c < width; ++c) dx[c] = static_cast<float>(static_cast<double>(dy[c]) * gamma[c] * scalars.rstd[c]);
    return;
  }
  for (; c + lanes <= width; c += lanes) {
    const Vector g = hn::Mul(load(dy + c), hn::Load(Doubles(), gamma + c));
    const Vector direct =
        hn::Mul(hn::Sub(g, hn::Load(Doubles(), scalars.shift + c)), hn::Load(Doubles(), scalars.rstd + c));
    const Vector d = hn::Sub(load(x + c), hn::Load(Doubles(), scalars.mean + c));
    store(hn::Sub(direct, hn::Mul(d, hn::Load(Doubles(), scalars.slope + c))), dx + c);
  }
  for (; c < width; ++c) {
    const double g = static_cast<double>(dy[c]) * gamma[c];
    const double d = static_cast<double>(x[c]) - scalars.mean[c];
    dx[c] = static_cast<float>((g - scalars.shift[c]) * scalars.rstd[c] - d * scalars.slope[c]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
