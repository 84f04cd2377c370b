// rejected by: single_value; looks like: inference formula in training, or mean term of dx missing
// A group of one element is taken for one whose statistics are constants: its dx is g r rather than 0.
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
    if (group.n == 1)
      put_inference_dx(t, group, s);
    else
      put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel single_element_dx_not_zero =
    backward(NG_INSTANCE_NORM, "broken/single_element_dx_not_zero", run);

}  // namespace normgate::broken
