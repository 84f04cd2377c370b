// What the built-in kernels, plain and simd, hand through the door in the same way: the conventions they honour, the
// calls they refuse, and their manifest but for the claim. It is here so that both meet the same units of the gate; how
// they compute they share nowhere.
//
// To add a convention: a line of `conventions`, and a case in both kernels where it is asked for.
#pragma once

#include <cstdint>

#include "kernels/abi/normgate.h"

namespace normgate::built_in {

// ---- variants ------------------------------------------------------------------------------------------------------

constexpr bool is_variant(std::int32_t variant) { return variant >= NG_BATCH_NORM && variant <= NG_RMS_NORM; }
constexpr bool is_centred(std::int32_t variant) { return variant != NG_RMS_NORM; }
constexpr bool has_running(std::int32_t variant) { return variant == NG_BATCH_NORM || variant == NG_INSTANCE_NORM; }

constexpr bool is_forward(std::int32_t phase) { return phase == NG_FORWARD_TRAINING || phase == NG_FORWARD_INFERENCE; }
constexpr bool is_backward(std::int32_t phase) {
  return phase == NG_BACKWARD_TRAINING || phase == NG_BACKWARD_INFERENCE;
}

constexpr bool is_statistics(std::int32_t phase) { return phase == NG_STATISTICS || phase == NG_MERGE_STATISTICS; }

// ---- conventions ---------------------------------------------------------------------------------------------------

struct Differences {
  std::int32_t normalizing_divisor = NG_NORMALIZE_N;
  std::int32_t stored_divisor = NG_STORE_N_MINUS_1;
  std::int32_t single_count = NG_SINGLE_NAN;
  std::int32_t momentum_form = NG_MOMENTUM_NEW;
  std::int32_t eps_placement = NG_EPS_INSIDE;
  std::int32_t gamma_offset = NG_GAMMA_PLAIN;
  std::int32_t saved_statistic = NG_SAVED_RSTD;
  std::int32_t gradients = NG_GRADIENTS_OVERWRITE;
};
constexpr ng_convention convention_with(const Differences& d) {
  return {sizeof(ng_convention), d.normalizing_divisor, d.stored_divisor,  d.single_count, d.momentum_form,
          d.eps_placement,       d.gamma_offset,        d.saved_statistic, d.gradients,    NG_SCALARS_FLOAT32};
}

// Any combination works; each entry is a unit of the gate, so each way to differ stands here once. Every variant
// honours a leading part of the list: rms_norm has no n-1, only those with running statistics have a stored divisor or
// momentum.
inline constexpr ng_convention conventions[] = {
    convention_with({}),
    convention_with({.eps_placement = NG_EPS_OUTSIDE}),
    convention_with({.eps_placement = NG_EPS_FLOOR}),
    convention_with({.gamma_offset = NG_GAMMA_PLUS_ONE}),
    convention_with({.saved_statistic = NG_SAVED_VARIANCE}),
    convention_with({.gradients = NG_GRADIENTS_ACCUMULATE}),
    convention_with({.normalizing_divisor = NG_NORMALIZE_N_MINUS_1}),
    convention_with({.stored_divisor = NG_STORE_N}),
    convention_with({.momentum_form = NG_MOMENTUM_OLD}),
    convention_with({.momentum_form = NG_MOMENTUM_CUMULATIVE}),
    convention_with({.momentum_form = NG_MOMENTUM_ACCUMULATED}),
    convention_with({.single_count = NG_SINGLE_UNCHANGED}),
    convention_with({.single_count = NG_SINGLE_ZERO}),
};
inline constexpr std::int32_t uncentred_conventions = 6;
inline constexpr std::int32_t stateless_conventions = 7;
inline constexpr auto all_conventions = static_cast<std::int32_t>(sizeof conventions / sizeof *conventions);

constexpr std::int32_t convention_count(std::int32_t variant) {
  if (!is_centred(variant)) return uncentred_conventions;
  return has_running(variant) ? all_conventions : stateless_conventions;
}
inline const ng_convention* convention(std::int32_t index) {
  return index >= 0 && index < all_conventions ? &conventions[index] : nullptr;
}

// ---- calls ---------------------------------------------------------------------------------------------------------

// Whether what is written over is read with the same strides.
inline bool fits_in_place(const ng_call& call, ng_role in, ng_role out) {
  const ng_tensor& a = *call.tensor[in];
  const ng_tensor& b = *call.tensor[out];
  if (a.data == nullptr || a.data != b.data) return true;
  for (int axis = 0; axis < NG_AXES; ++axis)
    if (call.extent[axis] > 1 && a.stride[axis] != b.stride[axis]) return false;
  return true;
}

// "" or the reason why the call cannot be served.
inline const char* refusal(const ng_call& call) {
  if (!is_variant(call.variant)) return "not one of the five variants";
  const bool backward = is_backward(call.phase);
  const bool twice = call.phase == NG_DOUBLE_BACKWARD;
  if (!backward && !is_forward(call.phase) && !is_statistics(call.phase) && !twice)
    return "not one of the seven phases";
  if (call.convention == nullptr) return "no convention";
  if (call.convention->scalars != NG_SCALARS_FLOAT32) return "eps and momentum are taken as float32 values";
  for (const ng_tensor* tensor : call.tensor)
    if (tensor != nullptr && (tensor->dtype != NG_FLOAT32 || tensor->layout_kind != 0 || tensor->memory_kind != 0))
      return "float32 in host memory with one stride per axis only";
  const auto has = [&](int role) { return call.tensor[role] != nullptr; };
  if (is_statistics(call.phase)) {
    const bool centred = is_centred(call.variant);
    if (!has(NG_STAT) || has(NG_MEAN) != centred) return "statistics are written to mean and stat, of rms_norm to stat";
    if (call.phase == NG_STATISTICS) return has(NG_X) ? "" : "x is needed";
    if (!has(NG_PART_STAT) || !has(NG_PART_COUNT) || has(NG_PART_MEAN) != centred)
      return "parts have part_mean, part_stat and part_count, of rms_norm the last two";
    return "";
  }
  if (twice) {
    if (!has(NG_X) || !has(NG_DY) || !has(NG_DDX) || !has(NG_DDY) || !has(NG_DX))
      return "x, dy and ddx are read, ddy and dx written";
    if (has(NG_DDGAMMA) != has(NG_GAMMA) || has(NG_DGAMMA) != has(NG_GAMMA))
      return "gamma, ddgamma and dgamma come together";
    return "";
  }
  if (backward) {
    if (!has(NG_X) || !has(NG_DY) || !has(NG_DX)) return "x, dy and dx are needed";
    if (!fits_in_place(call, NG_DY, NG_DX)) return "in place, dy and dx need the same strides";
  } else {
    if (!has(NG_X) || !has(NG_Y)) return "x and y are needed";
    if (!fits_in_place(call, NG_X, NG_Y)) return "in place, x and y need the same strides";
  }
  const bool inference = call.phase == NG_FORWARD_INFERENCE || call.phase == NG_BACKWARD_INFERENCE;
  const bool running = has(NG_RUNNING_MEAN);
  if (running != has(NG_RUNNING_VAR)) return "running_mean and running_var come together";
  if (running && !has_running(call.variant)) return "no running statistics for this variant";
  if (running && call.phase == NG_BACKWARD_TRAINING) return "gradients do not depend on running statistics";
  if (running && call.convention->momentum_form == NG_MOMENTUM_ACCUMULATED && !has(NG_RUNNING_WEIGHT))
    return "an accumulated weight needs running_weight";
  const bool given = has(NG_STAT) && (!is_centred(call.variant) || has(NG_MEAN));
  if (inference && !running && !given) return "inference needs running statistics, or mean and stat";
  if (call.phase == NG_BACKWARD_TRAINING && !given && (has(NG_STAT) || has(NG_MEAN)))
    return "mean and stat come together";
  return "";
}

// ---- manifest ------------------------------------------------------------------------------------------------------

constexpr std::uint64_t affine_roles = NG_ROLE_BIT(NG_GAMMA) | NG_ROLE_BIT(NG_BETA);
constexpr std::uint64_t gradient_roles = NG_ROLE_BIT(NG_DGAMMA) | NG_ROLE_BIT(NG_DBETA);
constexpr std::uint64_t running_roles =
    NG_ROLE_BIT(NG_RUNNING_MEAN) | NG_ROLE_BIT(NG_RUNNING_VAR) | NG_ROLE_BIT(NG_RUNNING_WEIGHT);

// A kernel of all phases but double_backward, any layout, both ways in place, everything optional that may be. `claim`,
// `supports`, `run` and what else differs are the caller's.
inline ng_kernel kernel_of(ng_variant variant, const char* name, const char* source) {
  const std::uint64_t saved = NG_ROLE_BIT(NG_STAT) | (is_centred(variant) ? NG_ROLE_BIT(NG_MEAN) : std::uint64_t{0});
  const std::uint64_t running = has_running(variant) ? running_roles : 0;
  // Where given statistics may come in two ways (running, saved), neither set is always present: none is required.
  const std::uint64_t given = has_running(variant) ? 0 : saved;
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = name;
  kernel.source = source;
  kernel.variant = variant;
  kernel.phases = 1U << NG_FORWARD_TRAINING | 1U << NG_FORWARD_INFERENCE | 1U << NG_BACKWARD_TRAINING |
                  1U << NG_BACKWARD_INFERENCE | 1U << NG_STATISTICS | 1U << NG_MERGE_STATISTICS;
  kernel.supported_roles[NG_FORWARD_TRAINING] = affine_roles | saved | running;
  kernel.supported_roles[NG_FORWARD_INFERENCE] = affine_roles | saved | running;
  kernel.supported_roles[NG_BACKWARD_TRAINING] = affine_roles | gradient_roles | saved;
  kernel.supported_roles[NG_BACKWARD_INFERENCE] = affine_roles | gradient_roles | saved | running;
  kernel.required_roles[NG_FORWARD_INFERENCE] = given;
  kernel.required_roles[NG_BACKWARD_INFERENCE] = given;
  kernel.convention_count = convention_count(variant);
  kernel.convention = convention;
  kernel.layouts = NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED | NG_LAYOUT_STRIDED | NG_LAYOUT_MIXED;
  kernel.in_place = NG_IN_PLACE_Y | NG_IN_PLACE_DX;
  return kernel;
}

}  // namespace normgate::built_in
