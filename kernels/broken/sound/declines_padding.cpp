// sound: declines padded rows through supports, though it claims them for some strides
// The gate tries what is left.
#include <cstdio>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t supports(const ng_call* call) {
  const Tensors t(*call);
  const std::int64_t row = call->extent[NG_G] * call->extent[NG_K] * call->extent[NG_S];
  if (call->extent[NG_N] <= 1 || t.x.stride[NG_N] == row) return 1;
  if (call->text != nullptr) std::snprintf(call->text, call->text_size, "gaps between samples are not supported");
  return 0;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel declines_padding = [] {
  ng_kernel kernel =
      with_layouts(training(NG_GROUP_NORM, "sound/declines_padding", run), NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED);
  kernel.supports = supports;
  return kernel;
}();

}  // namespace normgate::broken
