// What the plain kernels' phases have in common: the variant table, loops over tensors with strides, and the statistics
// of a group. float32 throughout, every sum in logical order, one rounding per operation as it is written.
//
// To add a variant: a line of `rows` in forward.cpp. To add a convention: a case where the convention is asked for.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/abi/normgate.h"

namespace normgate::plain {

// What tells the five variants apart: a column each, by axis N G K S.
struct Row {
  ng_variant variant;
  bool reduced[NG_AXES];  // one mean and one variance are taken over these
  bool running[NG_AXES];  // running statistics have these; none: no running statistics
  bool centred;           // the mean is subtracted; else the "variance" is the mean square
};

// nullptr: not one of the five.
const Row* row_of(std::int32_t variant);

using Index = std::array<std::int64_t, NG_AXES>;

// Calls f(index) for every index below `extent`, in row-major order.
template <typename F>
void for_each(const Index& extent, F f) {
  Index i;
  for (i[NG_N] = 0; i[NG_N] < extent[NG_N]; ++i[NG_N])
    for (i[NG_G] = 0; i[NG_G] < extent[NG_G]; ++i[NG_G])
      for (i[NG_K] = 0; i[NG_K] < extent[NG_K]; ++i[NG_K])
        for (i[NG_S] = 0; i[NG_S] < extent[NG_S]; ++i[NG_S]) f(i);
}

inline Index operator+(const Index& a, const Index& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]}; }

// A tensor that may be absent. Axes that it does not have carry stride 0, so any index finds its element.
class Tensor {
 public:
  Tensor(const ng_call& call, ng_role role) : tensor_(call.tensor[role]) {}
  explicit operator bool() const { return tensor_ != nullptr; }
  float& operator[](const Index& i) const {
    const std::int64_t* stride = tensor_->stride;
    return static_cast<float*>(
        tensor_->data)[i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2] + i[3] * stride[3]];
  }

 private:
  const ng_tensor* tensor_;
};

// A call, with the axes sorted by what is done along them.
struct Work {
  Work(const Row& row_, const ng_call& call_)
      : row(row_),
        call(call_),
        convention(*call_.convention),
        eps(static_cast<float>(call_.eps)),
        n_minus_1(row_.centred && call_.convention->normalizing_divisor == NG_NORMALIZE_N_MINUS_1),
        x(call_, NG_X),
        gamma(call_, NG_GAMMA),
        mean(call_, NG_MEAN),
        stat(call_, NG_STAT),
        running_mean(call_, NG_RUNNING_MEAN),
        running_var(call_, NG_RUNNING_VAR),
        running_weight(call_, NG_RUNNING_WEIGHT) {
    for (std::size_t a = 0; a < NG_AXES; ++a) {
      const std::int64_t extent = call_.extent[a];
      group[a] = row.reduced[a] ? extent : 1;
      state[a] = row.running[a] ? extent : 1;
      others[a] = row.reduced[a] || row.running[a] ? 1 : extent;
      size *= group[a];
      samples *= others[a];
      channels *= state[a];
    }
  }

  const Row& row;
  const ng_call& call;
  const ng_convention& convention;
  float eps;
  bool n_minus_1;  // the divisor of the variance that normalizes
  Index group{};   // the elements of one group
  Index state{};   // what has a running statistic of its own
  Index others{};  // the groups that share it: the samples, for instance_norm
  std::int64_t size = 1;
  std::int64_t samples = 1;
  std::int64_t channels = 1;
  Tensor x, gamma, mean, stat, running_mean, running_var, running_weight;
};

// sum / n, rounded once: in double, since n may exceed the integers that a float holds.
inline float quotient(float sum, std::int64_t n) { return static_cast<float>(sum / static_cast<double>(n)); }

// A sum over n or n-1. Under n-1 a single value has 0/0, or 0 where the convention says so.
inline float over_degrees(float sum, std::int64_t n, bool n_minus_1, const ng_convention& convention) {
  if (n_minus_1 && n == 1 && convention.single_count != NG_SINGLE_NAN) return 0;
  return quotient(sum, n_minus_1 ? n - 1 : n);
}

inline float reciprocal_deviation(float variance, const Work& work) {
  switch (work.convention.eps_placement) {
    case NG_EPS_OUTSIDE:
      return 1 / (std::sqrt(variance) + work.eps);
    case NG_EPS_FLOOR:
      return 1 / std::sqrt(variance < work.eps ? work.eps : variance);  // in this order: NaN stays NaN
    default:
      return 1 / std::sqrt(variance + work.eps);
  }
}

// The group at `origin` by two passes over x: its mean (0 if not centred), and the squares of the differences to it.
struct Moments {
  float mean = 0;
  float squares = 0;
  float variance = 0;  // the one that normalizes
};
inline Moments moments_of(const Work& work, const Index& origin) {
  Moments result;
  if (work.row.centred) {
    float sum = 0;
    for_each(work.group, [&](const Index& i) { sum += work.x[origin + i]; });
    result.mean = quotient(sum, work.size);  // NaN for no elements
  }
  for_each(work.group, [&](const Index& i) {
    const float d = work.x[origin + i] - result.mean;
    result.squares += d * d;
  });
  result.variance = work.size == 0 ? std::numeric_limits<float>::quiet_NaN()
                                   : over_degrees(result.squares, work.size, work.n_minus_1, work.convention);
  return result;
}

// Statistics that the call hands: running ones, or mean and stat.
struct Given {
  float mean = 0;
  float rstd = 0;
};
inline Given given_statistics(const Work& work, const Index& origin) {
  if (work.running_mean) {
    float mean = work.running_mean[origin];
    float variance = work.running_var[origin];
    if (work.convention.momentum_form == NG_MOMENTUM_ACCUMULATED) {
      const float weight = work.running_weight[Index{}];
      mean = weight == 0 ? 0 : mean / weight;  // nothing accumulated yet counts as statistics of 0
      variance = weight == 0 ? 0 : variance / weight;
    }
    return {mean, reciprocal_deviation(variance, work)};
  }
  const float stat = work.stat[origin];
  return {work.row.centred ? work.mean[origin] : 0,
          work.convention.saved_statistic == NG_SAVED_VARIANCE ? reciprocal_deviation(stat, work) : stat};
}

}  // namespace normgate::plain
