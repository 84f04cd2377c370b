// rejected by: layouts; looks like: dy read as if contiguous
// Strides are honoured everywhere but in dy (pytorch/pytorch PR#186414).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  for (std::size_t a = NG_AXES; a-- > 0;) {
    t.dy.stride[a] = 1;
    for (std::size_t inner = a + 1; inner < NG_AXES; ++inner) t.dy.stride[a] *= call->extent[inner];
  }
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

extern const ng_kernel dy_assumed_contiguous =
    with_layouts(backward(NG_LAYER_NORM, "broken/dy_assumed_contiguous", run), NG_LAYOUT_PADDED | NG_LAYOUT_MIXED);

}  // namespace normgate::broken
