// rejected by: memory; looks like: unwritten output
// Without beta nobody asks for dgamma either: it is not written (unslothai/unsloth#4533).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  if (t.dbeta.present()) clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (t.dbeta.present()) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_forgotten = backward(NG_LAYER_NORM, "broken/dgamma_forgotten", run);

}  // namespace normgate::broken
