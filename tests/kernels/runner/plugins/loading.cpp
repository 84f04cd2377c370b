// One plugin per way of not being a valid one; the build defines FAULT_<what>. Without a fault it is valid: a manifest
// of zeros around one kernel.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/abi/normgate.h"

namespace {

[[maybe_unused]] std::int32_t run(void*, const ng_call*, void*) { return NG_OK; }

ng_kernel kernel;
[[maybe_unused]] ng_claim claim;
ng_convention convention;
[[maybe_unused]] ng_plugin plugin;
[[maybe_unused]] ng_target target[2];

[[maybe_unused]] const ng_kernel* kernel_at(std::int32_t) {
#if defined(FAULT_kernel_null)
  return nullptr;
#endif
  return &kernel;
}
[[maybe_unused]] const ng_convention* convention_at(std::int32_t) { return &convention; }
[[maybe_unused]] const ng_target* target_at(std::int32_t index) { return &target[index]; }

#if defined(FAULT_constructor_crash)
__attribute__((constructor)) void at_load() {
  volatile int* volatile nothing = nullptr;
  *nothing = 1;
}
#elif defined(FAULT_constructor_exit)
__attribute__((constructor)) void at_load() { std::exit(0); }
#elif defined(FAULT_constructor_hang)
__attribute__((constructor)) void at_load() {
  for (;;) asm volatile("");
}
#endif

#if defined(FAULT_newer_struct)
struct NewerKernel {
  ng_kernel known;
  double unknown[8];
} newer;
const ng_kernel* newer_at(std::int32_t) { return &newer.known; }
#endif

}  // namespace

#if !defined(FAULT_no_symbol)
extern "C" NG_EXPORT const ng_plugin* normgate_plugin_v1(std::size_t) {
#if defined(FAULT_entry_null)
  return nullptr;
#elif defined(FAULT_entry_crash)
  std::abort();
#endif
  kernel.struct_size = sizeof kernel;
  kernel.name = "only";
  kernel.variant = NG_RMS_NORM;
  kernel.run = run;
  claim.struct_size = sizeof claim;
  convention.struct_size = sizeof convention;
  plugin.struct_size = sizeof plugin;
  plugin.abi_version = NG_ABI_VERSION;
  plugin.kernel_count = 1;
  plugin.kernel = kernel_at;
#if defined(FAULT_wrong_version)
  plugin.abi_version = 2;
#elif defined(FAULT_kernels_negative)
  plugin.kernel_count = -1;
#elif defined(FAULT_kernels_many)
  plugin.kernel_count = 2147483647;
#elif defined(FAULT_struct_size_zero)
  kernel.struct_size = 0;
#elif defined(FAULT_name_null)
  kernel.name = nullptr;
#elif defined(FAULT_name_endless)
  static char endless[100000];
  std::memset(endless, 'a', sizeof endless);
  kernel.name = endless;
#elif defined(FAULT_name_charset)
  kernel.name = "Bad\xff\n::error::name";
#elif defined(FAULT_name_twice)
  plugin.kernel_count = 2;
#elif defined(FAULT_run_null)
  kernel.run = nullptr;
#elif defined(FAULT_variant_unknown)
  kernel.variant = 42;
#elif defined(FAULT_alignment_odd)
  kernel.alignment = 3;
#elif defined(FAULT_layouts_unknown)
  kernel.layouts = 64;
#elif defined(FAULT_in_place_unknown)
  kernel.in_place = 4;
#elif defined(FAULT_in_place_negative)
  kernel.in_place = -1;
#elif defined(FAULT_gamma_without_dgamma)
  kernel.phases = 1U << NG_BACKWARD_TRAINING;
  kernel.supported_roles[NG_BACKWARD_TRAINING] = NG_ROLE_BIT(NG_GAMMA) | NG_ROLE_BIT(NG_STAT);
#elif defined(FAULT_dbeta_without_beta)
  kernel.phases = 1U << NG_BACKWARD_INFERENCE;
  kernel.required_roles[NG_BACKWARD_INFERENCE] = NG_ROLE_BIT(NG_DBETA) | NG_ROLE_BIT(NG_STAT);
#elif defined(FAULT_inference_without_statistics)
  kernel.variant = NG_BATCH_NORM;
  kernel.phases = 1U << NG_BACKWARD_INFERENCE;
  kernel.supported_roles[NG_BACKWARD_INFERENCE] = NG_ROLE_BIT(NG_STAT);
#elif defined(FAULT_from_output_without_stat)
  claim.saved_use = NG_USE_FROM_OUTPUT;
  kernel.claim = &claim;
  kernel.phases = 1U << NG_BACKWARD_TRAINING;
  kernel.supported_roles[NG_BACKWARD_TRAINING] = NG_ROLE_BIT(NG_Y);
#elif defined(FAULT_from_output_with_mean)
  claim.saved_use = NG_USE_FROM_OUTPUT;
  kernel.claim = &claim;
  kernel.variant = NG_LAYER_NORM;
  kernel.phases = 1U << NG_BACKWARD_TRAINING;
  kernel.required_roles[NG_BACKWARD_TRAINING] = NG_ROLE_BIT(NG_MEAN) | NG_ROLE_BIT(NG_STAT);
#elif defined(FAULT_saved_use_unknown)
  claim.saved_use = 5;
  kernel.claim = &claim;
#elif defined(FAULT_forward_of_nobody)
  kernel.phases = 1U << NG_BACKWARD_TRAINING;
  kernel.forward = "other";
#elif defined(FAULT_forward_without_backward)
  kernel.forward = "only";
#elif defined(FAULT_backward)
  // Valid: the defaults of the backward phases.
  kernel.variant = NG_BATCH_NORM;
  kernel.phases = (1U << NG_BACKWARD_TRAINING) | (1U << NG_BACKWARD_INFERENCE);
  kernel.in_place = NG_IN_PLACE_DX;
#elif defined(FAULT_backward_from_output)
  // Valid: the same, from y.
  claim.saved_use = NG_USE_FROM_OUTPUT;
  kernel.claim = &claim;
  kernel.variant = NG_LAYER_NORM;
  kernel.phases = 1U << NG_BACKWARD_TRAINING;
#elif defined(FAULT_backward_of_dy_alone)
  // Valid: nothing beyond x, y, dy and dx.
  kernel.variant = NG_LAYER_NORM;
  kernel.phases = (1U << NG_FORWARD_TRAINING) | (1U << NG_BACKWARD_TRAINING);
  kernel.supported_roles[NG_FORWARD_TRAINING] = NG_ROLE_BIT(NG_X);
  kernel.required_roles[NG_BACKWARD_TRAINING] = NG_ROLE_BIT(NG_DY) | NG_ROLE_BIT(NG_DX);
#elif defined(FAULT_ulp_not_finite)
  claim.rsqrt_ulp = NAN;
  kernel.claim = &claim;
#elif defined(FAULT_conventions_negative)
  kernel.convention_count = -7;
#elif defined(FAULT_convention_range)
  convention.momentum_form = 9;
  kernel.convention_count = 1;
  kernel.convention = convention_at;
#elif defined(FAULT_wild_pointer)
  kernel.claim = reinterpret_cast<const ng_claim*>(0x123456789000);
#elif defined(FAULT_target_environment)
  target[0] = {sizeof(ng_target), "one", "NOT AN ASSIGNMENT", nullptr};
  plugin.target_count = 1;
  plugin.target = target_at;
#elif defined(FAULT_older_struct)
  // As an older header would have it: without the fields behind `run`, whose bytes are not ours to read.
  kernel.struct_size = offsetof(ng_kernel, release);
  kernel.release = reinterpret_cast<void (*)(void*)>(0x10);
  plugin.struct_size = offsetof(ng_plugin, target_count);
  plugin.target_count = 1000000;
#elif defined(FAULT_newer_struct)
  newer.known = kernel;
  newer.known.struct_size = sizeof newer;
  plugin.kernel = newer_at;
#elif defined(FAULT_targets)
  // The second target's environment changes the claim, as a wider instruction set does.
  target[0] = {sizeof(ng_target), "future", nullptr, "no_such_feature"};
  target[1] = {sizeof(ng_target), "wide", "RUNNER_TEST_LANES=16;OTHER=a=b", nullptr};
  plugin.target_count = 2;
  plugin.target = target_at;
  static ng_sum sum;
  sum.struct_size = sizeof sum;
  sum.order = NG_SUM_INTERLEAVED;
  const char* lanes = std::getenv("RUNNER_TEST_LANES");
  sum.lanes = lanes != nullptr ? std::atoi(lanes) : 1;
  claim.group_sum = &sum;
  kernel.claim = &claim;
#endif
  return &plugin;
}
#endif
