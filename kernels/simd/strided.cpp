// Strided: elements stand anywhere. They are packed into a buffer, and written back from one. Fits everything.
#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/strided.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include "kernels/simd/gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

constexpr std::int64_t room = 16 * sum_lanes;

// The sum of the elements, or of the squares of their difference to `mean`.
HWY_INLINE double strided_sum(const Job& job, const float* x, bool squares, double mean) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  Sum sum;
  float buffer[room];
  std::int64_t filled = 0;
  const auto take = [&]() HWY_ATTR {
    if (squares)
      sum.add_squares(buffer, filled, mean);
    else
      sum.add(buffer, filled);
    filled = 0;
  };
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; ++i) {
      buffer[filled++] = x[o * outer.stride[X] + i * inner.stride[X]];
      if (filled == room) take();
    }
  if (filled > 0) take();
  return total(sum.lane);
}

void strided_moments(const Job& job, const Pointers& first, std::int64_t, double* mean, double* squares) {
  *mean = job.centred ? strided_sum(job, first.at[X], false, 0) / static_cast<double>(job.size) : 0;
  *squares = strided_sum(job, first.at[X], true, *mean);
}

HWY_INLINE void gather(const float* from, std::int64_t stride, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

// Worst row error found: 0.522 ulp, where the mean is 2^24 times as large as the differences and needs rounding in
// double:
//   x = 16777214, 16777215, 16777215 at stride 2, eps 1e-05,
//   gamma -0x1.fd3b6ap+0 (-1.98918784), beta 0x1.72c6b6p-3 (0.181043074)
//   y[2] = -0x1.39b9f2p+0 (-1.22549355), by definition -0x1.39b9f0f4d5782p+0 (-1.22549349)
void strided_normalize(const Job& job, const Pointers& first, std::int64_t, const double* mean, const double* rstd) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  float x[room];
  float y[room];
  float gamma[room];
  float beta[room];
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; i += room) {
      const Pointers p = first.moved(outer, o).moved(inner, i);
      const std::int64_t count = HWY_MIN(room, inner.extent - i);
      gather(p.at[X], inner.stride[X], count, x);
      Along along_gamma = gamma_along(job, p, inner);
      if (p.at[GAMMA] != nullptr && !inner.contiguous_or_fixed(GAMMA)) {
        gather(p.at[GAMMA], inner.stride[GAMMA], count, gamma);
        along_gamma = {gamma, job.gamma_offset, 0};
      }
      Along along_beta = beta_along(p, inner);
      if (p.at[BETA] != nullptr && !inner.contiguous_or_fixed(BETA)) {
        gather(p.at[BETA], inner.stride[BETA], count, beta);
        along_beta = {beta, 0, 0};
      }
      normalize_run(x, y, count, *mean, *rstd, along_gamma, along_beta);
      for (std::int64_t j = 0; j < count; ++j) p.at[Y][j * inner.stride[Y]] = y[j];
    }
}

void strided_sums(const Job& job, const Pointers& first, std::int64_t, const double* mean, const double* rstd,
                  const GradientSums& sums) {
  sums_of_group<false>(job, first, *mean, *rstd, sums);
}

// Worst row error found where the statistics are computed here: 0.505 ulp, for a mean 2^24 times as large as the
// differences; with handed ones 0.5.
//   x = 16777210, 16777211, 16777211 at stride 2, eps 1e-05,
//   dy -0x1.1810aep+0 (-1.09400451), 0x1.cdee9p-3 (0.225552678), 0x1.80b752p+0 (1.50279725),
//   gamma -0x1.765d1p-1 (-0.731178761), -0x1.2a2b1cp+0 (-1.1647203), 0x1.23389cp+0 (1.13758254)
//   dx[2] = 0x1.0bc1bcp+1 (2.0918498), by definition 0x1.0bc1bd0291954p+1 (2.09184992)
void strided_gradients(const Job& job, const Pointers& first, std::int64_t, const GradientScalars& scalars) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  float x[room];
  float dy[room];
  float dx[room];
  float gamma[room];
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; i += room) {
      const Pointers p = first.moved(outer, o).moved(inner, i);
      const std::int64_t count = HWY_MIN(room, inner.extent - i);
      gather(p.at[X], inner.stride[X], count, x);
      gather(p.at[DY], inner.stride[DY], count, dy);
      Along along_gamma = gamma_along(job, p, inner);
      if (p.at[GAMMA] != nullptr && !inner.contiguous_or_fixed(GAMMA)) {
        gather(p.at[GAMMA], inner.stride[GAMMA], count, gamma);
        along_gamma = {gamma, job.gamma_offset, 0};
      }
      gradients_of_run(x, dy, dx, count, scalars, along_gamma);
      for (std::int64_t j = 0; j < count; ++j) p.at[DX][j * inner.stride[DX]] = dx[j];
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::simd {

HWY_EXPORT(strided_moments);
HWY_EXPORT(strided_normalize);
HWY_EXPORT(strided_sums);
HWY_EXPORT(strided_gradients);

namespace {

bool fits(const Job&) { return true; }
void moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  NORMGATE_DISPATCH(strided_moments)(job, first, width, mean, squares);
}
void normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd) {
  NORMGATE_DISPATCH(strided_normalize)(job, first, width, mean, rstd);
}
bool fits_backward(const Job&) { return true; }
void sums(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
          const GradientSums& sums) {
  NORMGATE_DISPATCH(strided_sums)(job, first, width, mean, rstd, sums);
}
void gradients(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars) {
  NORMGATE_DISPATCH(strided_gradients)(job, first, width, scalars);
}

}  // namespace

// Claim: two passes in double, 16 interleaved sums, centred, 1/sqrt by square root and division; y rounded once.
// Backward: handed statistics in the short form, the same sums, over groups sequential; dx, dgamma and dbeta rounded
// once.
const Pattern strided{fits, 1, moments, normalize, fits_backward, sums, gradients, promises_of_the_order};

}  // namespace normgate::simd
#endif
