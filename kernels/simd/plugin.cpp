// The manifest of the SIMD kernels. To add a kernel: a line of `kernels`.
#include <cstdio>

#include "kernels/built_in/manifest.hpp"
#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

namespace {

namespace built_in = normgate::built_in;
namespace simd = normgate::simd;

// ---- calls ---------------------------------------------------------------------------------------------------------

int32_t supports(const ng_call* call) {
  const char* reason = simd::target_refusal();
  if (*reason == '\0') reason = built_in::refusal(*call);
  if (*reason == '\0' && call->phase == NG_DOUBLE_BACKWARD) reason = "no double backward";
  if (*reason == '\0') return 1;
  if (call->text != nullptr && call->text_size > 0) std::snprintf(call->text, call->text_size, "%s", reason);
  return 0;
}

int32_t workspace(void*, const ng_call* call, size_t* bytes, size_t* alignment) {
  if (supports(call) == 0) return NG_REFUSED;
  *bytes = simd::workspace_bytes(*call);
  *alignment = 64;
  return NG_OK;
}

int32_t run(void*, const ng_call* call, void* workspace) {
  if (supports(call) == 0) return NG_REFUSED;
  if (built_in::is_backward(call->phase))
    simd::backward(*call, workspace);
  else if (call->phase == NG_STATISTICS)
    simd::statistics(*call);
  else if (call->phase == NG_MERGE_STATISTICS)
    simd::merge_statistics(*call);
  else
    simd::forward(*call);
  return NG_OK;
}

// ---- claim ---------------------------------------------------------------------------------------------------------

constexpr ng_sum group_sum{sizeof(ng_sum), NG_SUM_INTERLEAVED, 0, simd::sum_lanes, 0};

// A kernel may meet any pattern, so it promises what all of them do (the foot of each pattern's file). The claim is the
// same on every target.
ng_claim claim_with(std::uint64_t without) {
  ng_claim claim{};
  claim.struct_size = sizeof(ng_claim);
  claim.accumulator = NG_TYPE_FLOAT64;
  claim.statistics = NG_TYPE_FLOAT64;
  claim.group_sum = &group_sum;
  claim.saved_use = NG_USE_SHORT;
  claim.promises = ~without;
  for (const simd::Pattern* pattern : simd::patterns()) claim.promises &= pattern->promises;
  return claim;
}

// ---- manifest ------------------------------------------------------------------------------------------------------

ng_kernel kernel_of(ng_variant variant, const char* name, const char* source) {
  static const ng_claim centred = claim_with(0);
  static const ng_claim uncentred = claim_with(NG_CONSTANT_EXACT);
  ng_kernel kernel = built_in::kernel_of(variant, name, source);
  kernel.claim = built_in::is_centred(variant) ? &centred : &uncentred;
  kernel.supports = supports;
  kernel.workspace = workspace;
  kernel.run = run;
  return kernel;
}

constexpr std::int32_t kernel_count = 5;

const ng_kernel* kernel(std::int32_t index) {
  static const ng_kernel kernels[kernel_count] = {
      kernel_of(NG_BATCH_NORM, "simd/batch_norm", "kernels/simd/planes.cpp:1"),
      kernel_of(NG_LAYER_NORM, "simd/layer_norm", "kernels/simd/rows.cpp:1"),
      kernel_of(NG_GROUP_NORM, "simd/group_norm", "kernels/simd/planes.cpp:1"),
      kernel_of(NG_INSTANCE_NORM, "simd/instance_norm", "kernels/simd/rows.cpp:1"),
      kernel_of(NG_RMS_NORM, "simd/rms_norm", "kernels/simd/rows.cpp:1"),
  };
  return index >= 0 && index < kernel_count ? &kernels[index] : nullptr;
}

}  // namespace

const ng_plugin* normgate_plugin_v1(size_t) {
  static const ng_plugin plugin{
      sizeof(ng_plugin),    NG_ABI_VERSION, kernel_count, "simd", nullptr, kernel, simd::compiled_target_count(), 0,
      simd::compiled_target};
  return &plugin;
}
