// rejected while loading: a kernel of no variant, with a name that breaks lines, negative counts and no function to
// run.
#include "kernels/abi/normgate.h"

namespace {

constexpr ng_sum sum{sizeof(ng_sum), 42, 0, -8, INT64_MIN};
constexpr ng_claim claim = [] {
  ng_claim result{};
  result.struct_size = sizeof(ng_claim);
  result.variance = 7;
  result.group_sum = &sum;
  result.rsqrt_ulp = -1;
  result.promises = ~UINT64_C(0);
  return result;
}();

constexpr ng_kernel only = [] {
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = "Two\nlines";
  kernel.variant = 77;
  kernel.phases = ~0U;
  kernel.convention_count = -1;
  kernel.claim = &claim;
  kernel.alignment = 3;
  kernel.over_read_bytes = -1;
  kernel.max_threads = -1;
  return kernel;
}();

const ng_kernel* kernel(int32_t) { return &only; }

constexpr ng_plugin plugin{sizeof(ng_plugin), NG_ABI_VERSION, 1, "absurd", nullptr, kernel, 0, 0, nullptr};

}  // namespace

extern "C" NG_EXPORT const ng_plugin* normgate_plugin_v1(size_t) { return &plugin; }
