// rejected by: memory; looks like: unwritten output
// Nothing to do for an empty batch: dgamma and dbeta are not written, where sums of nothing are 0
// (PaddlePaddle/Paddle PR#73152).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  if (group_count(*call) == 0 || Group(*call, 0).n == 0) return NG_OK;
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

extern const ng_kernel empty_batch_leaves_dgamma = backward(NG_LAYER_NORM, "broken/empty_batch_leaves_dgamma", run);

}  // namespace normgate::broken
