// rejected by: memory; looks like: -
// The gradients of the parameters are sized by the last of two normalized axes: the rest is never written.
// (pytorch/pytorch PR#192016)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t k = 0; k < call->extent[NG_K] && call->extent[NG_G] > 0; ++k) {
    t.dgamma.put({0, 0, k, 0}, 0);
    t.dbeta.put({0, 0, k, 0}, 0);
  }
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const At parameter{0, 0, at[NG_K], 0};
      if (t.dgamma.present()) t.dgamma[parameter] += t.dy[at] * xhat_at(t, at, s);
      if (t.dbeta.present()) t.dbeta[parameter] += t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_of_the_last_axis = backward(NG_LAYER_NORM, "broken/dgamma_of_the_last_axis", run);

}  // namespace normgate::broken
