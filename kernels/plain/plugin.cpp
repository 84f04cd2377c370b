// The manifest of the plain kernels. To add a kernel: a line of `kernels`.
#include <cstdio>

#include "kernels/built_in/manifest.hpp"
#include "kernels/plain/backward.hpp"
#include "kernels/plain/double_backward.hpp"
#include "kernels/plain/forward.hpp"
#include "kernels/plain/statistics.hpp"

namespace {

namespace built_in = normgate::built_in;
namespace plain = normgate::plain;

// ---- calls ---------------------------------------------------------------------------------------------------------

int32_t supports(const ng_call* call) {
  const char* reason = built_in::refusal(*call);
  if (*reason == '\0') return 1;
  if (call->text != nullptr && call->text_size > 0) std::snprintf(call->text, call->text_size, "%s", reason);
  return 0;
}

int32_t run(void*, const ng_call* call, void*) {
  if (supports(call) == 0) return NG_REFUSED;
  const plain::Row& row = *plain::row_of(call->variant);
  if (built_in::is_backward(call->phase))
    plain::backward(row, *call);
  else if (call->phase == NG_DOUBLE_BACKWARD)
    plain::double_backward(row, *call);
  else if (call->phase == NG_STATISTICS)
    plain::statistics(row, *call);
  else if (call->phase == NG_MERGE_STATISTICS)
    plain::merge_statistics(row, *call);
  else if (call->phase == NG_FORWARD_TRAINING)
    plain::forward_training(row, *call);
  else
    plain::forward_inference(row, *call);
  return NG_OK;
}

// ---- claim ---------------------------------------------------------------------------------------------------------
//
// float32, sequential sums, two passes, centred; means are quotients by n. All of it is the ABI's default. Handed
// statistics are used in the short form; a sum of dgamma or dbeta takes the elements one after the other, group by
// group, beginning with what is there where gradients accumulate.
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
  result.saved_use = NG_USE_SHORT;
  result.promises = NG_DIVIDES_BY_N | NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT | NG_LAYOUT_INVARIANT;
  return result;
}();

// ---- manifest ------------------------------------------------------------------------------------------------------

ng_kernel kernel_of(ng_variant variant, const char* name) {
  ng_kernel kernel = built_in::kernel_of(variant, name, "kernels/plain/forward.cpp:1");
  kernel.phases |= 1U << NG_DOUBLE_BACKWARD;
  kernel.claim = &claim;
  kernel.supports = supports;
  kernel.run = run;
  return kernel;
}

const ng_kernel kernels[] = {
    kernel_of(NG_BATCH_NORM, "plain/batch_norm"), kernel_of(NG_LAYER_NORM, "plain/layer_norm"),
    kernel_of(NG_GROUP_NORM, "plain/group_norm"), kernel_of(NG_INSTANCE_NORM, "plain/instance_norm"),
    kernel_of(NG_RMS_NORM, "plain/rms_norm"),
};
constexpr std::int32_t kernel_count = static_cast<std::int32_t>(sizeof kernels / sizeof *kernels);

const ng_kernel* kernel(std::int32_t index) { return index >= 0 && index < kernel_count ? &kernels[index] : nullptr; }

const ng_plugin plugin{sizeof(ng_plugin), NG_ABI_VERSION, kernel_count, "plain", nullptr, kernel, 0, 0, nullptr};

}  // namespace

const ng_plugin* normgate_plugin_v1(size_t) { return &plugin; }
