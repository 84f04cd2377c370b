// rejected by: layouts; looks like: -
// Recognizes channels last by the stride of K being 1. Maps of one position always look like that: the spatial stride
// that it then goes by is the row's, and a padded row is read across its gap.
// pytorch/pytorch#115940 (H = W = 1 makes strides ambiguous). Wrong only at S = 1.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  // Channels last and dense: the strides follow from the extents.
  if (t.x.stride[NG_K] == 1) {
    const std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
    t.x.stride = {channels * call->extent[NG_S], call->extent[NG_K], 1, channels};
  }
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel one_position_taken_for_channels_last =
    with_layouts(training(NG_GROUP_NORM, "broken/one_position_taken_for_channels_last", run),
                 NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED);

}  // namespace normgate::broken
