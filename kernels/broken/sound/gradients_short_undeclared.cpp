// sound: uses handed statistics and does not say how
// Judged as the derivative of the forward, with what the rounding of the handed values may change.
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

extern const ng_kernel gradients_short_undeclared =
    with_claim(backward(NG_GROUP_NORM, "sound/gradients_short_undeclared", run), nullptr);

}  // namespace normgate::broken
