// rejected by: layouts; looks like: only the first position reduced into dgamma, dbeta
// In channels last the columns of one group lie apart, and dgamma and dbeta take the first position of each row only.
// (pytorch/pytorch#140913)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    const bool channels_last = call->extent[NG_S] > 1 && t.x.stride[NG_S] > t.x.stride[NG_K];
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      if (channels_last && call->extent[NG_K] > 1 && at[NG_S] > 0) continue;
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * xhat_at(t, at, s);
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel wrong_dgamma_in_channels_last =
    with_layouts(backward(NG_GROUP_NORM, "broken/wrong_dgamma_in_channels_last", run), NG_LAYOUT_CHANNELS_LAST);

}  // namespace normgate::broken
