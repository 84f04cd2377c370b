// Planes: a group is several runs of memory, gamma and beta along each or fixed in it. Batch norm of N C H W tensors,
// group norm, padded rows of any variant.
#include <cstring>

#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/planes.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include "kernels/simd/gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

// Calls take(data, count) for all elements of a group in order, with counts that are multiples of 16 but for the last
// one. Long runs are taken where they stand; ends of runs are joined in a buffer, so that element i meets lane i mod 16
// however long the runs are.
template <typename Take>
HWY_INLINE void for_each_piece(const Job& job, const float* x, const Take& take) {
  constexpr std::int64_t room = 16 * sum_lanes;
  float buffer[room];
  std::int64_t filled = 0;
  for (std::int64_t o = 0; o < job.reduced[0].extent; ++o) {
    const float* run = x + o * job.reduced[0].stride[X];
    std::int64_t left = job.reduced[1].extent;
    while (left > 0) {
      std::int64_t count = 0;
      if (filled == 0 && left >= room) {
        count = left - left % sum_lanes;
        take(run, count);
      } else {
        count = HWY_MIN(left, room - filled);
        std::memcpy(buffer + filled, run, static_cast<std::size_t>(count) * sizeof(float));
        filled += count;
        if (filled == room) {
          take(buffer, room);
          filled = 0;
        }
      }
      run += count;
      left -= count;
    }
  }
  if (filled > 0) take(buffer, filled);
}

struct Add {
  Sum& sum;
  HWY_INLINE void operator()(const float* x, std::int64_t count) const { sum.add(x, count); }
};
struct AddSquares {
  Sum& sum;
  double mean;
  HWY_INLINE void operator()(const float* x, std::int64_t count) const { sum.add_squares(x, count, mean); }
};

void planes_moments(const Job& job, const Pointers& first, std::int64_t, double* mean, double* squares) {
  *mean = 0;
  if (job.centred) {
    Sum sum;
    for_each_piece(job, first.at[X], Add{sum});
    *mean = total(sum.lane) / static_cast<double>(job.size);
  }
  Sum sum;
  for_each_piece(job, first.at[X], AddSquares{sum, *mean});
  *squares = total(sum.lane);
}

// Worst row error found: 0.513 ulp, where the mean is 2^24 times as large as the differences and needs rounding in
// double:
//   x = 16777214, 16777214 | 16777215, 16777215 | 16777215, 16777215, eps 1e-05,
//   gamma -0x1.3f425cp+0 (-1.24710631), beta 0x1.d89fdp-3 (0.230773568)
//   y[0] = 0x1.fe918ep+0 (1.99440849), by definition 0x1.fe918f066ff46p+0 (1.99440855)
void planes_normalize(const Job& job, const Pointers& first, std::int64_t, const double* mean, const double* rstd) {
  const Axis& run = job.reduced[1];
  for (std::int64_t o = 0; o < job.reduced[0].extent; ++o) {
    const Pointers p = first.moved(job.reduced[0], o);
    normalize_run(p.at[X], p.at[Y], run.extent, *mean, *rstd, gamma_along(job, p, run), beta_along(p, run));
  }
}

void planes_sums(const Job& job, const Pointers& first, std::int64_t, const double* mean, const double* rstd,
                 const GradientSums& sums) {
  sums_of_group<true>(job, first, *mean, *rstd, sums);
}

// Worst row error found where the statistics are computed here: 0.502 ulp, for a mean 2^24 times as large as the
// differences; with handed ones 0.5.
//   x = 16777212, 16777210 | 16777213, 16777211 | 16777212, 16777212, eps 1e-05,
//   dy 0x1.ef24dcp+0 (1.93415618), -0x1.522efcp+0 (-1.32102942) | -0x1.e43f54p+0 (-1.89159131),
//   -0x1.93eaf8p+0 (-1.57780409) | -0x1.eb12d2p+0 (-1.91825593), -0x1.06a436p-3 (-0.128242895),
//   gamma -0x1.904f32p-3 (-0.195463553)
//   dx[2] = 0x1.08efcap-2 (0.258727223), by definition 0x1.08efcb0122a2dp-2 (0.258727238)
void planes_gradients(const Job& job, const Pointers& first, std::int64_t, const GradientScalars& scalars) {
  const Axis& run = job.reduced[1];
  for (std::int64_t o = 0; o < job.reduced[0].extent; ++o) {
    const Pointers p = first.moved(job.reduced[0], o);
    gradients_of_run(p.at[X], p.at[DY], p.at[DX], run.extent, scalars, gamma_along(job, p, run));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::simd {

HWY_EXPORT(planes_moments);
HWY_EXPORT(planes_normalize);
HWY_EXPORT(planes_sums);
HWY_EXPORT(planes_gradients);

namespace {

bool fits(const Job& job) {
  const Axis& run = job.reduced[1];
  return run.contiguous(X) && run.contiguous(Y) && run.contiguous_or_fixed(GAMMA) && run.contiguous_or_fixed(BETA);
}
void moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  NORMGATE_DISPATCH(planes_moments)(job, first, width, mean, squares);
}
void normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd) {
  NORMGATE_DISPATCH(planes_normalize)(job, first, width, mean, rstd);
}
bool fits_backward(const Job& job) { return runs_backward(job); }
void sums(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
          const GradientSums& sums) {
  NORMGATE_DISPATCH(planes_sums)(job, first, width, mean, rstd, sums);
}
void gradients(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars) {
  NORMGATE_DISPATCH(planes_gradients)(job, first, width, scalars);
}

}  // namespace

// Claim: two passes in double, 16 interleaved sums, centred, 1/sqrt by square root and division; y rounded once.
// Backward: handed statistics in the short form, the same sums, over groups sequential; dx, dgamma and dbeta rounded
// once.
const Pattern planes{fits, 1, moments, normalize, fits_backward, sums, gradients, promises_of_the_order};

}  // namespace normgate::simd
#endif
