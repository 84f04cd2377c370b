// sound: dx is written over dy, element by element, when everything has been summed
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
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

extern const ng_kernel dx_over_dy = [] {
  ng_kernel kernel = backward(NG_INSTANCE_NORM, "sound/dx_over_dy", run);
  kernel.in_place = NG_IN_PLACE_DX;
  kernel.layouts = NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED;
  return kernel;
}();

}  // namespace normgate::broken
