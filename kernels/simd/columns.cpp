// Columns: neighbours in memory belong to different groups, so vectors run across groups. Batch and instance norm with
// channels last, or without positions; layer norm over channels of N C H W tensors.
#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/columns.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include "kernels/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

// The 16 partial sums of up to 64 groups: 8 KiB, so that each step reads 256 neighbouring bytes and all sums stay in
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

HWY_INLINE void add(const float* x, std::int64_t width, double* HWY_RESTRICT sum) {
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes)
    hn::Store(hn::Add(hn::Load(Doubles(), sum + c), load(x + c)), Doubles(), sum + c);
  for (; c < width; ++c) sum[c] += static_cast<double>(x[c]);
}

HWY_INLINE void add_squares(const float* x, std::int64_t width, const double* mean, double* HWY_RESTRICT sum) {
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) {
    const Vector d = hn::Sub(load(x + c), hn::Load(Doubles(), mean + c));
    hn::Store(hn::Add(hn::Load(Doubles(), sum + c), hn::Mul(d, d)), Doubles(), sum + c);
  }
  for (; c < width; ++c) {
    const double d = static_cast<double>(x[c]) - mean[c];
    sum[c] += d * d;
  }
}

void columns_moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  for (std::int64_t c = 0; c < width; ++c) mean[c] = 0;
  if (job.centred) {
    Sums sums(width);
    std::int64_t element = 0;
    for (std::int64_t o = 0; o < outer.extent; ++o)
      for (std::int64_t i = 0; i < inner.extent; ++i, ++element)
        add(first.at[X] + o * outer.stride[X] + i * inner.stride[X], width, sums.lane[element % sum_lanes]);
    sums.total(width, mean);
    for (std::int64_t c = 0; c < width; ++c) mean[c] /= static_cast<double>(job.size);
  }
  Sums sums(width);
  std::int64_t element = 0;
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; ++i, ++element)
      add_squares(first.at[X] + o * outer.stride[X] + i * inner.stride[X], width, mean, sums.lane[element % sum_lanes]);
  sums.total(width, squares);
}

HWY_INLINE void normalize_row(const float* x, float* y, std::int64_t width, const double* mean, const double* rstd,
                              const double* gamma, const double* beta) {
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) {
    const Vector d = hn::Sub(load(x + c), hn::Load(Doubles(), mean + c));
    const Vector scaled = hn::Mul(hn::Mul(d, hn::Load(Doubles(), rstd + c)), hn::Load(Doubles(), gamma + c));
    store(hn::Add(scaled, hn::Load(Doubles(), beta + c)), y + c);
  }
  for (; c < width; ++c)
    y[c] = static_cast<float>((static_cast<double>(x[c]) - mean[c]) * rstd[c] * gamma[c] + beta[c]);
}

// Worst row error found: 0.514 ulp, where the mean is 2^24 times as large as the differences and needs rounding in
// double:
//   x = 16777211, 16777210, 16777210 in the first of two columns, eps 1e-05,
//   gamma -0x1.501574p+0 (-1.31282735), beta 0x1.2afbccp-4 (0.0729940385)
//   y[1] = 0x1.00540ap+0 (1.00128233), by definition 0x1.005408f8a6ebfp+0 (1.00128227)
void columns_normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean,
                       const double* rstd) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  HWY_ALIGN double gamma[widest];
  HWY_ALIGN double beta[widest];
  for (std::int64_t c = 0; c < width; ++c) {
    gamma[c] = 1;
    beta[c] = 0;
  }
  const bool along = outer.stride[GAMMA] != 0 || inner.stride[GAMMA] != 0 || outer.stride[BETA] != 0 ||
                     inner.stride[BETA] != 0;  // the parameters change within a group
  bool ready = false;
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; ++i) {
      const Pointers p = first.moved(outer, o).moved(inner, i);
      if (along || !ready) {
        if (p.at[GAMMA] != nullptr)
          for (std::int64_t c = 0; c < width; ++c)
            gamma[c] = static_cast<double>(p.at[GAMMA][c * job.across.stride[GAMMA]]) + job.gamma_offset;
        if (p.at[BETA] != nullptr)
          for (std::int64_t c = 0; c < width; ++c)
            beta[c] = static_cast<double>(p.at[BETA][c * job.across.stride[BETA]]);
        ready = true;
      }
      normalize_row(p.at[X], p.at[Y], width, mean, rstd, gamma, beta);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::simd {

HWY_EXPORT(columns_moments);
HWY_EXPORT(columns_normalize);

namespace {

bool fits(const Job& job) { return job.across.extent > 1 && job.across.contiguous(X) && job.across.contiguous(Y); }
void moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  NORMGATE_DISPATCH(columns_moments)(job, first, width, mean, squares);
}
void normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd) {
  NORMGATE_DISPATCH(columns_normalize)(job, first, width, mean, rstd);
}

}  // namespace

// Claim: two passes in double, 16 interleaved sums, centred, 1/sqrt by square root and division; y rounded once.
const Pattern columns{fits, widest, moments, normalize, promises_of_the_order};

}  // namespace normgate::simd
#endif
