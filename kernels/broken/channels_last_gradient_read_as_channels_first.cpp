// rejected by: layouts; looks like: -
// dy in channels last is read as if it were channels first; x is read as it stands.
// PaddlePaddle/Paddle PR#54703. A square of as many channels as positions would at least stay in place.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  const std::int64_t positions = call->extent[NG_S];
  const std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
  t.dy.stride = {channels * positions, call->extent[NG_K] * positions, positions, 1};
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel channels_last_gradient_read_as_channels_first = with_layouts(
    backward(NG_BATCH_NORM, "broken/channels_last_gradient_read_as_channels_first", run), NG_LAYOUT_CHANNELS_LAST);

}  // namespace normgate::broken
