// From a call to loops. To add a variant: a line of `variants`.
#include "kernels/simd/job.hpp"

#include <utility>

namespace normgate::simd {

namespace {

// Which axes a variant's loops run along; `none` stands for an axis of extent 1.
constexpr int none = -1;
struct Variant {
  ng_variant variant;
  bool centred;
  Channels channels;
  int groups[2];
  int samples;
  int reduced[2];
};
constexpr Variant variants[] = {
    {NG_BATCH_NORM, true, Channels::one, {NG_G, NG_K}, none, {NG_N, NG_S}},
    {NG_LAYER_NORM, true, Channels::per_element, {NG_N, NG_S}, none, {NG_G, NG_K}},
    {NG_GROUP_NORM, true, Channels::per_run, {NG_N, NG_G}, none, {NG_K, NG_S}},
    {NG_INSTANCE_NORM, true, Channels::one, {NG_G, NG_K}, NG_N, {none, NG_S}},
    {NG_RMS_NORM, false, Channels::per_element, {NG_N, NG_S}, none, {NG_G, NG_K}},
};
constexpr ng_role roles[OPERANDS] = {NG_X,           NG_Y,  NG_GAMMA, NG_BETA,   NG_MEAN, NG_STAT, NG_RUNNING_MEAN,
                                     NG_RUNNING_VAR, NG_DY, NG_DX,    NG_DGAMMA, NG_DBETA};

const Variant& variant_of(std::int32_t number) {
  for (const Variant& variant : variants)
    if (variant.variant == number) return variant;
  return variants[0];
}

bool is_backward(const ng_call& call) {
  return call.phase == NG_BACKWARD_TRAINING || call.phase == NG_BACKWARD_INFERENCE;
}

Axis axis_of(const ng_call& call, int number) {
  Axis axis;
  if (number == none) return axis;
  axis.extent = call.extent[number];
  if (axis.extent == 1) return axis;
  for (std::size_t o = 0; o < OPERANDS; ++o)
    if (const ng_tensor* tensor = call.tensor[roles[o]]; tensor != nullptr) axis.stride[o] = tensor->stride[number];
  if (is_backward(call) && number == NG_G) axis.channel = call.extent[NG_K];
  if (is_backward(call) && number == NG_K) axis.channel = 1;
  return axis;
}

// Makes one axis of two (the second one the inner) if every operand's strides allow it.
void merge(Axis& outer, Axis& inner) {
  if (outer.extent == 1) return;
  if (inner.extent == 1) {
    inner = outer;
  } else {
    bool one = outer.channel == inner.extent * inner.channel;
    for (std::size_t o = 0; o < OPERANDS; ++o) one = one && outer.stride[o] == inner.extent * inner.stride[o];
    if (!one) return;
    inner.extent *= outer.extent;
  }
  outer = Axis{};
}

}  // namespace

ReducedAxes reduced_axes(std::int32_t variant) {
  ReducedAxes result{};
  for (const int axis : variant_of(variant).reduced)
    if (axis != none) result.has[axis] = true;
  return result;
}

Job job_of(const ng_call& call) {
  const bool backward = is_backward(call);
  Variant variant = variant_of(call.variant);
  // Groups of one channel are those of instance norm. This and what follows looks at extents, never at strides, since
  // the order of sums depends on it.
  if (backward && variant.channels == Channels::per_run && call.extent[NG_K] == 1)
    variant = variant_of(NG_INSTANCE_NORM);
  if (variant.channels == Channels::per_run && call.extent[NG_S] == 1) variant.channels = Channels::per_element;
  Job job;
  job.call = &call;
  job.convention = call.convention;
  job.centred = variant.centred;
  job.channels = variant.channels;
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
  // Where only x is walked through, y would not stand in the way of any pattern.
  if (call.phase == NG_STATISTICS)
    for (Axis* axis : {&job.outer, &job.across, &job.samples, &job.reduced[0], &job.reduced[1]})
      axis->stride[Y] = axis->stride[X];
  const auto leave_out = [&](Operand operand) {
    job.base.at[operand] = nullptr;
    for (Axis* axis : {&job.outer, &job.across, &job.samples, &job.reduced[0], &job.reduced[1]})
      axis->stride[operand] = 0;
  };
  if (backward)
    for (const Operand operand : {Y, BETA}) leave_out(operand);
  // Sums over groups go through the workspace, whose channels are dense.
  if (backward && job.channels != Channels::one)
    for (const Operand operand : {DGAMMA, DBETA}) leave_out(operand);
  if (!backward || job.channels != Channels::per_run) merge(job.reduced[0], job.reduced[1]);
  merge(job.outer, job.across);
  const auto neighbours = [&](const Axis& axis) {
    return axis.extent > 1 && axis.contiguous(X) && axis.contiguous(backward ? DX : Y);
  };
  if ((!backward || job.channels == Channels::one) && neighbours(job.outer) && !neighbours(job.across))
    std::swap(job.outer, job.across);
  return job;
}

}  // namespace normgate::simd
