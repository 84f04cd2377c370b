// The manifest of the SIMD kernels. To add a kernel: a line of `kernels`.
#include <cstdio>

#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

namespace {

using namespace normgate::simd;

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

int32_t supports(const ng_call* call) {
  const char* reason = refusal(*call);
  if (*reason == '\0') return 1;
  if (call->text != nullptr && call->text_size > 0) std::snprintf(call->text, call->text_size, "%s", reason);
  return 0;
}

int32_t run(void*, const ng_call* call, void*) {
  if (supports(call) == 0) return NG_REFUSED;
  forward(*call);
  return NG_OK;
}

// ---- claim ---------------------------------------------------------------------------------------------------------

constexpr ng_sum group_sum{sizeof(ng_sum), NG_SUM_INTERLEAVED, 0, sum_lanes, 0};

// A kernel may meet any pattern, so it promises what all of them do (the foot of each pattern's file). The claim is the
// same on every target.
ng_claim claim_with(std::uint64_t without) {
  ng_claim claim{};
  claim.struct_size = sizeof(ng_claim);
  claim.accumulator = NG_TYPE_FLOAT64;
  claim.statistics = NG_TYPE_FLOAT64;
  claim.group_sum = &group_sum;
  claim.promises = ~without;
  for (const Pattern* pattern : patterns()) claim.promises &= pattern->promises;
  return claim;
}

// ---- manifest ------------------------------------------------------------------------------------------------------

constexpr std::uint64_t affine = NG_ROLE_BIT(NG_GAMMA) | NG_ROLE_BIT(NG_BETA);
constexpr std::uint64_t stat = NG_ROLE_BIT(NG_STAT);
constexpr std::uint64_t saved = NG_ROLE_BIT(NG_MEAN) | stat;
constexpr std::uint64_t running =
    NG_ROLE_BIT(NG_RUNNING_MEAN) | NG_ROLE_BIT(NG_RUNNING_VAR) | NG_ROLE_BIT(NG_RUNNING_WEIGHT);

// Where given statistics may come in two ways (running, saved), neither set is always present: none is required.
ng_kernel kernel_with(const char* name, const char* source, ng_variant variant, std::uint64_t statistics,
                      std::uint64_t given, std::int32_t convention_count, const ng_claim& claim) {
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = name;
  kernel.source = source;
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

constexpr std::int32_t kernel_count = 5;

const ng_kernel* kernel(std::int32_t index) {
  static const ng_claim centred = claim_with(0);
  static const ng_claim uncentred = claim_with(NG_CONSTANT_EXACT);
  static const ng_kernel kernels[kernel_count] = {
      kernel_with("simd/batch_norm", "kernels/simd/planes.cpp:1", NG_BATCH_NORM, saved | running, 0, all_conventions,
                  centred),
      kernel_with("simd/layer_norm", "kernels/simd/rows.cpp:1", NG_LAYER_NORM, saved, saved, stateless_conventions,
                  centred),
      kernel_with("simd/group_norm", "kernels/simd/planes.cpp:1", NG_GROUP_NORM, saved, saved, stateless_conventions,
                  centred),
      kernel_with("simd/instance_norm", "kernels/simd/rows.cpp:1", NG_INSTANCE_NORM, saved | running, 0,
                  all_conventions, centred),
      kernel_with("simd/rms_norm", "kernels/simd/rows.cpp:1", NG_RMS_NORM, stat, stat, uncentred_conventions,
                  uncentred),
  };
  return index >= 0 && index < kernel_count ? &kernels[index] : nullptr;
}

}  // namespace

const ng_plugin* normgate_plugin_v1(size_t) {
  static const ng_plugin plugin{
      sizeof(ng_plugin), NG_ABI_VERSION, kernel_count, "simd", nullptr, kernel, compiled_target_count(), 0,
      compiled_target};
  return &plugin;
}
