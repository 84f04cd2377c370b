// sound: rows that are not centred have no mean of g
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
    if (call->phase == NG_BACKWARD_TRAINING)
      put_training_dx(*call, t, group, s);
    else
      put_inference_dx(t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_of_rms_norm = backward_both(NG_RMS_NORM, "sound/gradients_of_rms_norm", run);

}  // namespace normgate::broken
