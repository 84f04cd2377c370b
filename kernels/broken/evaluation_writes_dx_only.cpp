// rejected by: memory; looks like: unwritten output
// In evaluation only the main output is made; dgamma and dbeta are declared all the same (PaddlePaddle/CINN PR#1150,
// unslothai/unsloth#4533).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const bool evaluation = call->phase == NG_BACKWARD_INFERENCE;
  if (!evaluation) clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (evaluation) {
      put_inference_dx(t, group, s);
      continue;
    }
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel evaluation_writes_dx_only =
    backward_both(NG_BATCH_NORM, "broken/evaluation_writes_dx_only", run);

}  // namespace normgate::broken
