// rejected by: layouts; looks like: gradients of the parameters from dx instead of dy
// dx may be written over dy, and dgamma and dbeta read dy after that.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    put_training_dx(*call, t, group, s);
    add_parameter_gradients(t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dx_over_dy_before_dgamma = [] {
  ng_kernel kernel = backward(NG_LAYER_NORM, "broken/dx_over_dy_before_dgamma", run);
  kernel.in_place = NG_IN_PLACE_DX;
  return kernel;
}();

}  // namespace normgate::broken
