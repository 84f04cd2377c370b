// rejected by: finite_differences; looks like: dgamma from x instead of xhat
// dgamma sums dy x rather than dy x̂: right for rows that are normalized already.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * t.x[at];
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_from_x = backward(NG_LAYER_NORM, "broken/dgamma_from_x", run);

}  // namespace normgate::broken
