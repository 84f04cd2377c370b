// Rows: a group is one run of memory, with gamma and beta along it or fixed. Layer and rms norm of contiguous tensors;
// instance norm's planes; group norm where G K S are contiguous and K or S is 1.
#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/rows.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include "kernels/simd/gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

void rows_moments(const Job& job, const Pointers& first, std::int64_t, double* mean, double* squares) {
  const float* x = first.at[X];
  *mean = 0;
  if (job.centred) {
    Sum sum;
    sum.add(x, job.size);
    *mean = total(sum.lane) / static_cast<double>(job.size);
  }
  Sum sum;
  sum.add_squares(x, job.size, *mean);
  *squares = total(sum.lane);
}

// Worst row error found: 0.522 ulp, where the mean is 2^24 times as large as the differences and needs rounding in
// double:
//   x = 16777214, 16777213, 16777213, eps 1e-05, gamma -0x1.4be58ap+0 (-1.29647124), beta 0x1.61cc42p-5 (0.043188218)
//   y[1] = 0x1.eb797cp-1 (0.959911227), by definition 0x1.eb797af48fecp-1 (0.959911196)
void rows_normalize(const Job& job, const Pointers& first, std::int64_t, const double* mean, const double* rstd) {
  const Axis& run = job.reduced[1];
  normalize_run(first.at[X], first.at[Y], job.size, *mean, *rstd, gamma_along(job, first, run), beta_along(first, run));
}

void rows_sums(const Job& job, const Pointers& first, std::int64_t, const double* mean, const double* rstd,
               const GradientSums& sums) {
  sums_of_group<true>(job, first, *mean, *rstd, sums);
}

// Worst row error found where the statistics are computed here: 0.505 ulp, for a mean 2^24 times as large as the
// differences; with handed ones 0.5.
//   x = 16777211, 16777210, 16777211, eps 1e-05,
//   dy 0x1.54020ep-1 (0.664078176), -0x1.0c36aap+0 (-1.04770911), -0x1.e4140ap+0 (-1.89093077),
//   gamma 0x1.d0b45ep+0 (1.81525218), -0x1.4e8c5ep-1 (-0.653414667), 0x1.5f2b96p+0 (1.37175882)
//   dx[2] = -0x1.01e824p+2 (-4.02979374), by definition -0x1.01e825025e712p+2 (-4.02979398)
void rows_gradients(const Job& job, const Pointers& first, std::int64_t, const GradientScalars& scalars) {
  const Along gamma = gamma_along(job, first, job.reduced[1]);
  gradients_of_run(first.at[X], first.at[DY], first.at[DX], job.size, scalars, gamma);
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::simd {

HWY_EXPORT(rows_moments);
HWY_EXPORT(rows_normalize);
HWY_EXPORT(rows_sums);
HWY_EXPORT(rows_gradients);

namespace {

bool fits(const Job& job) {
  const Axis& run = job.reduced[1];
  return job.reduced[0].extent == 1 && run.contiguous(X) && run.contiguous(Y) && run.contiguous_or_fixed(GAMMA) &&
         run.contiguous_or_fixed(BETA);
}
void moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  NORMGATE_DISPATCH(rows_moments)(job, first, width, mean, squares);
}
void normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd) {
  NORMGATE_DISPATCH(rows_normalize)(job, first, width, mean, rstd);
}
bool fits_backward(const Job& job) { return job.reduced[0].extent == 1 && runs_backward(job); }
void sums(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
          const GradientSums& sums) {
  NORMGATE_DISPATCH(rows_sums)(job, first, width, mean, rstd, sums);
}
void gradients(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars) {
  NORMGATE_DISPATCH(rows_gradients)(job, first, width, scalars);
}

}  // namespace

// Claim: two passes in double, 16 interleaved sums, centred, 1/sqrt by square root and division; y rounded once.
// Backward: handed statistics in the short form, the same sums, over groups sequential; dx, dgamma and dbeta rounded
// once.
const Pattern rows{fits, 1, moments, normalize, fits_backward, sums, gradients, promises_of_the_order};

}  // namespace normgate::simd
#endif
