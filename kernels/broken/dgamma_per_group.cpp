// rejected by: gradients; looks like: dgamma per group instead of per channel
// dgamma and dbeta are summed over the channels of a group, and each channel of the group gets the sum.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    Sums sums;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      sums.g += t.dy[at];
      sums.g_xhat += t.dy[at] * xhat_at(t, at, s);
    }
    for (std::int64_t k = 0; k < call->extent[NG_K]; ++k) {
      const At channel{0, group.first[NG_G], k, 0};
      if (t.dgamma.present()) t.dgamma[channel] += sums.g_xhat;
      if (t.dbeta.present()) t.dbeta[channel] += sums.g;
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_per_group = backward(NG_GROUP_NORM, "broken/dgamma_per_group", run);

}  // namespace normgate::broken
