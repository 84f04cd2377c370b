// rejected by: gradients; looks like: gradients not written or added where overwrite is declared
// Without gamma the path that clears the gradients is left out, and dbeta counts up over the calls.
// (apache/mxnet#16297)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  if (t.gamma.present()) clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dbeta_accumulates_without_gamma =
    backward(NG_BATCH_NORM, "broken/dbeta_accumulates_without_gamma", run);

}  // namespace normgate::broken
