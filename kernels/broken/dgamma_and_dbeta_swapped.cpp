// rejected by: gradients; looks like: dgamma and dbeta swapped
// Each gradient stands in the place of the other, wherever both are asked for (Oneflow-Inc/oneflow PR#6149).
#include <utility>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  if (t.dgamma.present() && t.dbeta.present()) std::swap(t.dgamma, t.dbeta);
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

extern const ng_kernel dgamma_and_dbeta_swapped = backward(NG_LAYER_NORM, "broken/dgamma_and_dbeta_swapped", run);

}  // namespace normgate::broken
