// rejected by: layouts; looks like: x read in the layout of dy
// The strides of dy serve x as well: right as long as both have one layout (pytorch/pytorch#64039).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  t.x.stride = t.dy.stride;
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

extern const ng_kernel layout_of_x_taken_from_dy = with_layouts(
    backward(NG_BATCH_NORM, "broken/layout_of_x_taken_from_dy", run), NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_MIXED);

}  // namespace normgate::broken
