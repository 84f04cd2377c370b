// rejected by: memory; looks like: refused what it supports
// Says yes to every call, and finds out in `run` that rows longer than 4096 do not fit.
// charlie12345/ROCmFPX PR#41 (support was claimed, and the kernel aborted).
#include <cstdio>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t supports(const ng_call*) { return 1; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  if (call->extent[NG_G] * call->extent[NG_K] > 4096) {
    if (call->text != nullptr) std::snprintf(call->text, call->text_size, "rows above 4096 are not supported");
    return NG_REFUSED;
  }
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel refuses_after_supports = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/refuses_after_supports", run);
  kernel.supports = supports;
  return kernel;
}();

}  // namespace normgate::broken
