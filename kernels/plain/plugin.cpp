// The manifest of the plain kernels. To add a kernel: a line of `kernels`.
#include <cstdio>

#include "kernels/plain/forward.hpp"

namespace {

using normgate::plain::Row;
using normgate::plain::row_of;

// ---- conventions ---------------------------------------------------------------------------------------------------

struct Differences {
  std::int32_t normalizing_divisor = NG_NORMALIZE_N;
  std::int32_t stored_divisor = NG_STORE_N_MINUS_1;
  std::int32_t single_count = NG_SINGLE_NAN;
  std::int32_t momentum_form = NG_MOMENTUM_NEW;
  std::int32_t eps_placement = NG_EPS_INSIDE;
  std::int32_t gamma_offset = NG_GAMMA_PLAIN;
  std::int32_t saved_statistic = NG_SAVED_RSTD;
};
constexpr ng_convention convention_with(const Differences& d) {
  return {sizeof(ng_convention), d.normalizing_divisor, d.stored_divisor,  d.single_count,         d.momentum_form,
          d.eps_placement,       d.gamma_offset,        d.saved_statistic, NG_GRADIENTS_OVERWRITE, NG_SCALARS_FLOAT32};
}

// Any combination works; each entry is a unit of the gate, so each way to differ stands here once. Every variant
// honours a leading part of the list: rms_norm has no n-1, only those with running statistics have a stored divisor or
// momentum.
constexpr ng_convention conventions[] = {
    convention_with({}),
    convention_with({.eps_placement = NG_EPS_OUTSIDE}),
    convention_with({.eps_placement = NG_EPS_FLOOR}),
    convention_with({.gamma_offset = NG_GAMMA_PLUS_ONE}),
    convention_with({.saved_statistic = NG_SAVED_VARIANCE}),
    convention_with({.normalizing_divisor = NG_NORMALIZE_N_MINUS_1}),
    convention_with({.stored_divisor = NG_STORE_N}),
    convention_with({.momentum_form = NG_MOMENTUM_OLD}),
    convention_with({.momentum_form = NG_MOMENTUM_CUMULATIVE}),
    convention_with({.momentum_form = NG_MOMENTUM_ACCUMULATED}),
    convention_with({.single_count = NG_SINGLE_UNCHANGED}),
    convention_with({.single_count = NG_SINGLE_ZERO}),
};
constexpr std::int32_t uncentred_conventions = 5;
constexpr std::int32_t stateless_conventions = 6;
constexpr std::int32_t all_conventions = static_cast<std::int32_t>(sizeof conventions / sizeof *conventions);

const ng_convention* convention(std::int32_t index) {
  return index >= 0 && index < all_conventions ? &conventions[index] : nullptr;
}

// ---- calls ---------------------------------------------------------------------------------------------------------

int32_t no(const ng_call& call, const char* reason) {
  if (call.text != nullptr && call.text_size > 0) std::snprintf(call.text, call.text_size, "%s", reason);
  return 0;
}

int32_t supports(const ng_call* call) {
  const Row* row = row_of(call->variant);
  if (row == nullptr) return no(*call, "not one of the five variants");
  if (call->phase != NG_FORWARD_TRAINING && call->phase != NG_FORWARD_INFERENCE) return no(*call, "forward only");
  if (call->convention == nullptr) return no(*call, "no convention");
  if (call->convention->scalars != NG_SCALARS_FLOAT32) return no(*call, "eps and momentum are used as float32");
  for (const ng_tensor* tensor : call->tensor)
    if (tensor != nullptr && (tensor->dtype != NG_FLOAT32 || tensor->layout_kind != 0 || tensor->memory_kind != 0))
      return no(*call, "float32 in host memory with one stride per axis only");
  const auto has = [&](int role) { return call->tensor[role] != nullptr; };
  if (!has(NG_X) || !has(NG_Y)) return no(*call, "x and y are needed");
  if (has(NG_RUNNING_MEAN) != has(NG_RUNNING_VAR)) return no(*call, "running_mean and running_var come together");
  const bool weighted = call->convention->momentum_form == NG_MOMENTUM_ACCUMULATED;
  if (has(NG_RUNNING_MEAN) && weighted && !has(NG_RUNNING_WEIGHT))
    return no(*call, "an accumulated weight needs running_weight");
  if (call->phase == NG_FORWARD_INFERENCE && !has(NG_RUNNING_MEAN) &&
      (!has(NG_STAT) || (row->centred && !has(NG_MEAN))))
    return no(*call, "inference needs running statistics, or mean and stat");
  return 1;
}

int32_t run(void*, const ng_call* call, void*) {
  if (supports(call) == 0) return NG_REFUSED;
  const Row& row = *row_of(call->variant);
  if (call->phase == NG_FORWARD_TRAINING)
    normgate::plain::forward_training(row, *call);
  else
    normgate::plain::forward_inference(row, *call);
  return NG_OK;
}

// ---- manifest ------------------------------------------------------------------------------------------------------

constexpr std::uint64_t affine = NG_ROLE_BIT(NG_GAMMA) | NG_ROLE_BIT(NG_BETA);
constexpr std::uint64_t stat = NG_ROLE_BIT(NG_STAT);
constexpr std::uint64_t saved = NG_ROLE_BIT(NG_MEAN) | stat;
constexpr std::uint64_t running =
    NG_ROLE_BIT(NG_RUNNING_MEAN) | NG_ROLE_BIT(NG_RUNNING_VAR) | NG_ROLE_BIT(NG_RUNNING_WEIGHT);

extern const ng_claim claim;

// Where given statistics may come in two ways (running, saved), neither set is always present: none is required.
ng_kernel kernel_with(const char* name, ng_variant variant, std::uint64_t statistics, std::uint64_t given,
                      std::int32_t convention_count) {
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = name;
  kernel.source = "kernels/plain/forward.cpp:1";
  kernel.variant = variant;
  kernel.phases = 1U << NG_FORWARD_TRAINING | 1U << NG_FORWARD_INFERENCE;
  kernel.supported_roles[NG_FORWARD_TRAINING] = affine | statistics;
  kernel.supported_roles[NG_FORWARD_INFERENCE] = affine | statistics;
  kernel.required_roles[NG_FORWARD_INFERENCE] = given;
  kernel.convention_count = convention_count;
  kernel.convention = convention;
  kernel.claim = &claim;
  kernel.layouts = NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED | NG_LAYOUT_STRIDED | NG_LAYOUT_MIXED;
  kernel.in_place = 1;
  kernel.supports = supports;
  kernel.run = run;
  return kernel;
}

const ng_kernel kernels[] = {
    kernel_with("plain/batch_norm", NG_BATCH_NORM, saved | running, 0, all_conventions),
    kernel_with("plain/layer_norm", NG_LAYER_NORM, saved, saved, stateless_conventions),
    kernel_with("plain/group_norm", NG_GROUP_NORM, saved, saved, stateless_conventions),
    kernel_with("plain/instance_norm", NG_INSTANCE_NORM, saved | running, 0, all_conventions),
    kernel_with("plain/rms_norm", NG_RMS_NORM, stat, stat, uncentred_conventions),
};
constexpr std::int32_t kernel_count = static_cast<std::int32_t>(sizeof kernels / sizeof *kernels);

const ng_kernel* kernel(std::int32_t index) { return index >= 0 && index < kernel_count ? &kernels[index] : nullptr; }

// ---- claim ---------------------------------------------------------------------------------------------------------
//
// float32, sequential sums, two passes, centred; means are quotients by n. All of it is the ABI's default.
//
// row_independent, batch_invariant: a group is computed by one loop that reads nothing of the others and knows neither
// their number nor its own place. layout_invariant: the loop runs in logical order whatever the strides, and no
// operation is contracted (CMakeLists.txt).
// Not claimed: constant_exact (the float32 sum of 768 times 1234.567 is not 768 * 1234.567), scale_covariant (the
// square of a tiny deviation underflows), ieee_specials (finite sums and differences may overflow: 3e38 + 3e38 - inf is
// NaN).
const ng_claim claim = [] {
  ng_claim result{};
  result.struct_size = sizeof(ng_claim);
  result.promises = NG_DIVIDES_BY_N | NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT | NG_LAYOUT_INVARIANT;
  return result;
}();

const ng_plugin plugin{sizeof(ng_plugin), NG_ABI_VERSION, kernel_count, "plain", nullptr, kernel, 0, 0, nullptr};

}  // namespace

const ng_plugin* normgate_plugin_v1(size_t) { return &plugin; }
