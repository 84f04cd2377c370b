// The forward phases, and statistics alone: everything that does not depend on the instruction set. Statistics are kept
// in double until they are stored.
#include <limits>

#include "kernels/simd/statistics.hpp"

namespace normgate::simd {

namespace {

const Pattern& pattern_for(const Job& job) {
  for (const Pattern* pattern : patterns())
    if (pattern->fits(job)) return *pattern;
  return strided;
}

// One step of a running statistic.
void update(float& running, double batch, const ng_call& call) {
  const double old = static_cast<double>(running);
  const double m = call.momentum;
  double value = 0;
  switch (call.convention->momentum_form) {
    case NG_MOMENTUM_OLD:
      value = m * old + (1 - m) * batch;
      break;
    case NG_MOMENTUM_CUMULATIVE:
      value = (static_cast<double>(call.step - 1) * old + batch) / static_cast<double>(call.step);
      break;
    case NG_MOMENTUM_ACCUMULATED:
      value = m * old + batch;
      break;
    default:
      value = (1 - m) * old + m * batch;
  }
  running = static_cast<float>(value);
}

void forward_training(const Job& job, const Pattern& pattern) {
  const ng_convention& convention = *job.convention;
  const std::int64_t n = job.size;
  const bool n_minus_1 = normalizes_by_n_minus_1(job);
  const bool stored_n_minus_1 = convention.stored_divisor == NG_STORE_N_MINUS_1;
  // An empty batch leaves the state as it is.
  const bool stateful = job.base.at[RUNNING_MEAN] != nullptr && n != 0 && job.samples.extent != 0;
  const bool variance_kept = n == 1 && stored_n_minus_1 && convention.single_count == NG_SINGLE_UNCHANGED;
  for_each_block(job, pattern, [&](const Pointers& block, std::int64_t width) {
    alignas(64) double mean[widest];
    alignas(64) double squares[widest];
    alignas(64) double rstd[widest];
    double sum_of_means[widest];
    double sum_of_variances[widest];
    for (std::int64_t c = 0; c < width; ++c) sum_of_means[c] = sum_of_variances[c] = 0;
    for (std::int64_t s = 0; s < job.samples.extent; ++s) {
      const Pointers first = block.moved(job.samples, s);
      if (n > 0) pattern.moments(job, first, width, mean, squares);
      for (std::int64_t c = 0; c < width; ++c) {
        const double nan = std::numeric_limits<double>::quiet_NaN();
        if (n == 0) mean[c] = nan;
        const double variance = n == 0 ? nan : over_degrees(squares[c], n, n_minus_1, convention);
        rstd[c] = reciprocal_deviation(variance, job);
        if (first.at[MEAN] != nullptr) first.at[MEAN][c * job.across.stride[MEAN]] = static_cast<float>(mean[c]);
        if (first.at[STAT] != nullptr)
          first.at[STAT][c * job.across.stride[STAT]] =
              static_cast<float>(convention.saved_statistic == NG_SAVED_VARIANCE ? variance : rstd[c]);
        if (!stateful) continue;
        sum_of_means[c] += mean[c];
        sum_of_variances[c] += over_degrees(squares[c], n, stored_n_minus_1, convention);
      }
      if (n > 0) pattern.normalize(job, first, width, mean, rstd);
    }
    if (!stateful) return;
    const auto samples = static_cast<double>(job.samples.extent);
    for (std::int64_t c = 0; c < width; ++c) {
      update(block.at[RUNNING_MEAN][c * job.across.stride[RUNNING_MEAN]], sum_of_means[c] / samples, *job.call);
      if (!variance_kept)
        update(block.at[RUNNING_VAR][c * job.across.stride[RUNNING_VAR]], sum_of_variances[c] / samples, *job.call);
    }
  });
  const bool any = job.outer.extent != 0 && job.across.extent != 0;
  if (const ng_tensor* tensor = job.call->tensor[NG_RUNNING_WEIGHT]; tensor != nullptr && stateful && any) {
    float& weight = *static_cast<float*>(tensor->data);
    weight = static_cast<float>(job.call->momentum * static_cast<double>(weight) + 1);
  }
}

void forward_inference(const Job& job, const Pattern& pattern) {
  if (job.size == 0) return;
  const Given given(job);
  for_each_block(job, pattern, [&](const Pointers& block, std::int64_t width) {
    alignas(64) double mean[widest];
    alignas(64) double rstd[widest];
    for (std::int64_t s = 0; s < job.samples.extent; ++s) {
      const Pointers first = block.moved(job.samples, s);
      given.read(first, width, mean, rstd);
      pattern.normalize(job, first, width, mean, rstd);
    }
  });
}

}  // namespace

void statistics(const ng_call& call) {
  const Job job = job_of(call);
  const Pattern& pattern = pattern_for(job);
  const std::int64_t n = job.size;
  for_each_block(job, pattern, [&](const Pointers& block, std::int64_t width) {
    alignas(64) double mean[widest];
    alignas(64) double squares[widest];
    for (std::int64_t s = 0; s < job.samples.extent; ++s) {
      const Pointers first = block.moved(job.samples, s);
      if (n > 0) pattern.moments(job, first, width, mean, squares);
      for (std::int64_t c = 0; c < width; ++c) {
        const double nan = std::numeric_limits<double>::quiet_NaN();
        if (first.at[MEAN] != nullptr)
          first.at[MEAN][c * job.across.stride[MEAN]] = static_cast<float>(n == 0 ? nan : mean[c]);
        first.at[STAT][c * job.across.stride[STAT]] =
            static_cast<float>(n == 0 ? nan : squares[c] / static_cast<double>(n));
      }
    }
  });
}

void forward(const ng_call& call) {
  const Job job = job_of(call);
  const Pattern& pattern = pattern_for(job);
  if (call.phase == NG_FORWARD_TRAINING)
    forward_training(job, pattern);
  else
    forward_inference(job, pattern);
}

}  // namespace normgate::simd
