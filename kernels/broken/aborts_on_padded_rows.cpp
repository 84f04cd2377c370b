// rejected by: layouts; looks like: abort
// Claims padded rows, and asserts that there are none. charlie12345/ROCmFPX PR#41.
#include <cstdlib>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  if (call->extent[NG_N] > 1 && t.x.stride[NG_N] > call->extent[NG_G] * call->extent[NG_K] * call->extent[NG_S])
    std::abort();
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel aborts_on_padded_rows =
    with_layouts(training(NG_LAYER_NORM, "broken/aborts_on_padded_rows", run), NG_LAYOUT_PADDED);

}  // namespace normgate::broken
