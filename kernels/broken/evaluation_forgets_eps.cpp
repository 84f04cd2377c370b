// rejected by: gradients; looks like: -
// In evaluation 1/D is the reciprocal root of running_var alone (analogdevicesinc/ai8x-training PR#108 folded so).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    Statistics s = handed(*call, t, group);
    if (t.running_var.present()) s.rstd = 1 / std::sqrt(t.running_var[group.first]);
    add_parameter_gradients(t, group, s);
    if (call->phase == NG_BACKWARD_INFERENCE)
      put_inference_dx(t, group, s);
    else
      put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel evaluation_forgets_eps = backward_both(NG_BATCH_NORM, "broken/evaluation_forgets_eps", run);

}  // namespace normgate::broken
