// rejected by: memory; looks like: unwritten output
// With no rows there is nothing to do, and dgamma and dbeta, which are 0, stay unwritten (pytorch/pytorch PR#192179).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  if (call->extent[NG_N] == 0) return NG_OK;
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

extern const ng_kernel gradients_unwritten_for_an_empty_batch =
    backward(NG_BATCH_NORM, "broken/gradients_unwritten_for_an_empty_batch", run);

}  // namespace normgate::broken
