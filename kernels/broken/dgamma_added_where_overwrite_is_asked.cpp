// rejected by: gradients; looks like: gradients not written or added where overwrite is declared
// dgamma and dbeta are added to what their memory held before the call (torch/nn#318).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_added_where_overwrite_is_asked =
    backward(NG_LAYER_NORM, "broken/dgamma_added_where_overwrite_is_asked", run);

}  // namespace normgate::broken
