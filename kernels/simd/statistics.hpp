// From sums to statistics, in double. To add a convention: a case where the convention is asked for.
#pragma once

#include <cmath>

#include "kernels/simd/patterns.hpp"

namespace normgate::simd {

// Calls body(first, width) for all blocks of groups, samples apart.
template <typename Body>
void for_each_block(const Job& job, const Pattern& pattern, const Body& body) {
  for (std::int64_t o = 0; o < job.outer.extent; ++o)
    for (std::int64_t a = 0; a < job.across.extent; a += pattern.width) {
      const std::int64_t left = job.across.extent - a;
      body(job.base.moved(job.outer, o).moved(job.across, a), left < pattern.width ? left : pattern.width);
    }
}

// A sum over n or n-1; under n-1 a single value has 0/0, or 0 where the convention says so.
inline double over_degrees(double sum, std::int64_t n, bool n_minus_1, const ng_convention& convention) {
  if (n_minus_1 && n == 1 && convention.single_count != NG_SINGLE_NAN) return 0;
  return sum / static_cast<double>(n_minus_1 ? n - 1 : n);
}

// The divisor of the variance that normalizes.
inline bool normalizes_by_n_minus_1(const Job& job) {
  return job.centred && job.convention->normalizing_divisor == NG_NORMALIZE_N_MINUS_1;
}

inline double reciprocal_deviation(double variance, const Job& job) {
  const double eps = job.call->eps;
  switch (job.convention->eps_placement) {
    case NG_EPS_OUTSIDE:
      return 1 / (std::sqrt(variance) + eps);
    case NG_EPS_FLOOR:
      return 1 / std::sqrt(variance < eps ? eps : variance);  // in this order: NaN stays NaN
    default:
      return 1 / std::sqrt(variance + eps);
  }
}

// Statistics that the call hands: running ones, or mean and stat.
class Given {
 public:
  explicit Given(const Job& job) : job_(job), running_(job.base.at[RUNNING_MEAN] != nullptr) {
    if (running_ && job.convention->momentum_form == NG_MOMENTUM_ACCUMULATED)
      weight_ = static_cast<double>(*static_cast<const float*>(job.call->tensor[NG_RUNNING_WEIGHT]->data));
  }

  // Of `width` neighbours on job.across.
  void read(const Pointers& first, std::int64_t width, double* mean, double* rstd) const {
    const Axis& across = job_.across;
    for (std::int64_t c = 0; c < width; ++c) {
      if (running_) {
        mean[c] = weighted(first.at[RUNNING_MEAN][c * across.stride[RUNNING_MEAN]]);
        rstd[c] = reciprocal_deviation(weighted(first.at[RUNNING_VAR][c * across.stride[RUNNING_VAR]]), job_);
        continue;
      }
      mean[c] = job_.centred ? static_cast<double>(first.at[MEAN][c * across.stride[MEAN]]) : 0;
      const auto stat = static_cast<double>(first.at[STAT][c * across.stride[STAT]]);
      rstd[c] = job_.convention->saved_statistic == NG_SAVED_VARIANCE ? reciprocal_deviation(stat, job_) : stat;
    }
  }

 private:
  // Nothing accumulated yet: statistics of 0.
  [[nodiscard]] double weighted(float value) const { return weight_ == 0 ? 0 : static_cast<double>(value) / weight_; }

  const Job& job_;
  bool running_;
  double weight_ = 1;
};

}  // namespace normgate::simd
