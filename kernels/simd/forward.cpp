// From a call to groups, and from sums to statistics: everything that does not depend on the instruction set.
// Statistics are kept in double until they are stored.
//
// To add a variant: a line of `variants`. To add a convention: a case where the convention is asked for.
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

namespace normgate::simd {

namespace {

// Which axes a variant's loops run along; `none` stands for an axis of extent 1.
constexpr int none = -1;
struct Variant {
  ng_variant variant;
  bool centred;
  bool stateful;  // has running statistics, for each pair of `groups`
  int groups[2];
  int samples;
  int reduced[2];
};
constexpr Variant variants[] = {
    {NG_BATCH_NORM, true, true, {NG_G, NG_K}, none, {NG_N, NG_S}},
    {NG_LAYER_NORM, true, false, {NG_N, NG_S}, none, {NG_G, NG_K}},
    {NG_GROUP_NORM, true, false, {NG_N, NG_G}, none, {NG_K, NG_S}},
    {NG_INSTANCE_NORM, true, true, {NG_G, NG_K}, NG_N, {none, NG_S}},
    {NG_RMS_NORM, false, false, {NG_N, NG_S}, none, {NG_G, NG_K}},
};

constexpr ng_role roles[OPERANDS] = {NG_X, NG_Y, NG_GAMMA, NG_BETA, NG_MEAN, NG_STAT, NG_RUNNING_MEAN, NG_RUNNING_VAR};

const Variant* variant_of(std::int32_t number) {
  for (const Variant& variant : variants)
    if (variant.variant == number) return &variant;
  return nullptr;
}

// ---- axes ----------------------------------------------------------------------------------------------------------

Axis axis_of(const ng_call& call, int number) {
  Axis axis;
  if (number == none) return axis;
  axis.extent = call.extent[number];
  if (axis.extent == 1) return axis;
  for (std::size_t o = 0; o < OPERANDS; ++o)
    if (const ng_tensor* tensor = call.tensor[roles[o]]; tensor != nullptr) axis.stride[o] = tensor->stride[number];
  return axis;
}

// Makes one axis of two (the second one the inner) if every operand's strides allow it.
void merge(Axis& outer, Axis& inner) {
  if (outer.extent == 1) return;
  bool one = inner.extent == 1;
  if (!one) {
    one = true;
    for (std::size_t o = 0; o < OPERANDS; ++o) one = one && outer.stride[o] == inner.extent * inner.stride[o];
    if (!one) return;
    inner.extent *= outer.extent;
  } else {
    inner = outer;
  }
  outer = Axis{};
}

Job job_of(const ng_call& call, const Variant& variant) {
  Job job;
  job.call = &call;
  job.convention = call.convention;
  job.centred = variant.centred;
  job.gamma_offset = call.convention->gamma_offset == NG_GAMMA_PLUS_ONE ? 1 : 0;
  for (std::size_t o = 0; o < OPERANDS; ++o)
    if (const ng_tensor* tensor = call.tensor[roles[o]]; tensor != nullptr)
      job.base.at[o] = static_cast<float*>(tensor->data);
  job.outer = axis_of(call, variant.groups[0]);
  job.across = axis_of(call, variant.groups[1]);
  job.samples = axis_of(call, variant.samples);
  job.reduced[0] = axis_of(call, variant.reduced[0]);
  job.reduced[1] = axis_of(call, variant.reduced[1]);
  job.size = job.reduced[0].extent * job.reduced[1].extent;
  merge(job.reduced[0], job.reduced[1]);
  merge(job.outer, job.across);
  const auto neighbours = [](const Axis& axis) { return axis.extent > 1 && axis.contiguous(X) && axis.contiguous(Y); };
  if (neighbours(job.outer) && !neighbours(job.across)) std::swap(job.outer, job.across);
  return job;
}

const Pattern& pattern_for(const Job& job) {
  for (const Pattern* pattern : patterns())
    if (pattern->fits(job)) return *pattern;
  return strided;
}

// ---- conventions ---------------------------------------------------------------------------------------------------

// A sum of squares over n or n-1; under n-1 a single value has 0/0, or 0 where the convention says so.
double variance_of(double squares, std::int64_t n, bool n_minus_1, const ng_convention& convention) {
  if (n_minus_1 && n == 1 && convention.single_count != NG_SINGLE_NAN) return 0;
  return squares / static_cast<double>(n_minus_1 ? n - 1 : n);
}

double reciprocal_deviation(double variance, const Job& job) {
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

// ---- phases --------------------------------------------------------------------------------------------------------

// Calls body(first, width) for all blocks of groups, samples apart.
template <typename Body>
void for_each_block(const Job& job, const Pattern& pattern, const Body& body) {
  for (std::int64_t o = 0; o < job.outer.extent; ++o)
    for (std::int64_t a = 0; a < job.across.extent; a += pattern.width) {
      const std::int64_t left = job.across.extent - a;
      body(job.base.moved(job.outer, o).moved(job.across, a), left < pattern.width ? left : pattern.width);
    }
}

void forward_training(const Job& job, const Pattern& pattern) {
  const ng_convention& convention = *job.convention;
  const std::int64_t n = job.size;
  const bool n_minus_1 = job.centred && convention.normalizing_divisor == NG_NORMALIZE_N_MINUS_1;
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
        const double variance = n == 0 ? nan : variance_of(squares[c], n, n_minus_1, convention);
        rstd[c] = reciprocal_deviation(variance, job);
        if (first.at[MEAN] != nullptr) first.at[MEAN][c * job.across.stride[MEAN]] = static_cast<float>(mean[c]);
        if (first.at[STAT] != nullptr)
          first.at[STAT][c * job.across.stride[STAT]] =
              static_cast<float>(convention.saved_statistic == NG_SAVED_VARIANCE ? variance : rstd[c]);
        if (!stateful) continue;
        sum_of_means[c] += mean[c];
        sum_of_variances[c] += variance_of(squares[c], n, stored_n_minus_1, convention);
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
  const ng_convention& convention = *job.convention;
  const bool running = job.base.at[RUNNING_MEAN] != nullptr;
  double weight = 1;
  if (running && convention.momentum_form == NG_MOMENTUM_ACCUMULATED)
    weight = static_cast<double>(*static_cast<const float*>(job.call->tensor[NG_RUNNING_WEIGHT]->data));
  const auto weighted = [&](float value) {
    return weight == 0 ? 0 : static_cast<double>(value) / weight;  // nothing accumulated yet: statistics of 0
  };
  for_each_block(job, pattern, [&](const Pointers& block, std::int64_t width) {
    alignas(64) double mean[widest];
    alignas(64) double rstd[widest];
    for (std::int64_t s = 0; s < job.samples.extent; ++s) {
      const Pointers first = block.moved(job.samples, s);
      for (std::int64_t c = 0; c < width; ++c) {
        if (running) {
          mean[c] = weighted(first.at[RUNNING_MEAN][c * job.across.stride[RUNNING_MEAN]]);
          const double variance = weighted(first.at[RUNNING_VAR][c * job.across.stride[RUNNING_VAR]]);
          rstd[c] = reciprocal_deviation(variance, job);
          continue;
        }
        mean[c] = job.centred ? static_cast<double>(first.at[MEAN][c * job.across.stride[MEAN]]) : 0;
        const auto stat = static_cast<double>(first.at[STAT][c * job.across.stride[STAT]]);
        rstd[c] = convention.saved_statistic == NG_SAVED_VARIANCE ? reciprocal_deviation(stat, job) : stat;
      }
      pattern.normalize(job, first, width, mean, rstd);
    }
  });
}

bool same_strides(const ng_call& call, const ng_tensor& a, const ng_tensor& b) {
  for (std::size_t axis = 0; axis < NG_AXES; ++axis)
    if (call.extent[axis] > 1 && a.stride[axis] != b.stride[axis]) return false;
  return true;
}

}  // namespace

const char* refusal(const ng_call& call) {
  if (*target_refusal() != '\0') return target_refusal();
  const Variant* variant = variant_of(call.variant);
  if (variant == nullptr) return "not one of the five variants";
  if (call.phase != NG_FORWARD_TRAINING && call.phase != NG_FORWARD_INFERENCE) return "forward only";
  if (call.convention == nullptr) return "no convention";
  if (call.convention->scalars != NG_SCALARS_FLOAT32) return "eps and momentum are taken as float32 values";
  for (const ng_tensor* tensor : call.tensor)
    if (tensor != nullptr && (tensor->dtype != NG_FLOAT32 || tensor->layout_kind != 0 || tensor->memory_kind != 0))
      return "float32 in host memory with one stride per axis only";
  const auto has = [&](int role) { return call.tensor[role] != nullptr; };
  if (!has(NG_X) || !has(NG_Y)) return "x and y are needed";
  if (call.tensor[NG_X]->data != nullptr && call.tensor[NG_X]->data == call.tensor[NG_Y]->data &&
      !same_strides(call, *call.tensor[NG_X], *call.tensor[NG_Y]))
    return "in place, x and y need the same strides";
  if (has(NG_RUNNING_MEAN) != has(NG_RUNNING_VAR)) return "running_mean and running_var come together";
  if (has(NG_RUNNING_MEAN) && !variant->stateful) return "no running statistics for this variant";
  const bool weighted = call.convention->momentum_form == NG_MOMENTUM_ACCUMULATED;
  if (has(NG_RUNNING_MEAN) && weighted && !has(NG_RUNNING_WEIGHT)) return "an accumulated weight needs running_weight";
  if (call.phase == NG_FORWARD_INFERENCE && !has(NG_RUNNING_MEAN) &&
      (!has(NG_STAT) || (variant->centred && !has(NG_MEAN))))
    return "inference needs running statistics, or mean and stat";
  return "";
}

void forward(const ng_call& call) {
  const Job job = job_of(call, *variant_of(call.variant));
  const Pattern& pattern = pattern_for(job);
  if (call.phase == NG_FORWARD_TRAINING)
    forward_training(job, pattern);
  else
    forward_inference(job, pattern);
}

}  // namespace normgate::simd
