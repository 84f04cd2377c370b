// rejected by: gradients; looks like: dgamma 0 where gamma is 0
// A channel whose gamma is 0 is skipped in dgamma: it can never come back (the kind of unslothai/unsloth#4533: a
// gradient that is not returned).
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
      if (t.dgamma.present() && t.gamma[at] != 0) t.dgamma[at] += t.dy[at] * xhat_at(t, at, s);
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel pruned_channel_has_no_dgamma =
    backward(NG_LAYER_NORM, "broken/pruned_channel_has_no_dgamma", run);

}  // namespace normgate::broken
