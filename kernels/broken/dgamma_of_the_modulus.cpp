// rejected by: gradients; looks like: dgamma of the modulus of xhat
// dgamma sums dy |x̂|, as if x̂ came from a deviation that has no sign: right for what lies above the mean (another
// term in the sum, of the kind of BobMcDear/attorch#17).
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
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * std::fabs(xhat_at(t, at, s));
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_of_the_modulus = backward(NG_BATCH_NORM, "broken/dgamma_of_the_modulus", run);

}  // namespace normgate::broken
