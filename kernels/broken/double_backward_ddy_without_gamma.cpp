// rejected by: double_backward; looks like: -
// ddy is the response to ddx that is not multiplied by gamma.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_second_dgamma(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const SecondSums r = second_sums(*call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.ddy[at] = answer_at(t, at, r) + t.ddgamma.value(at, 0) * xhat_at(t, at, r.s) + t.ddbeta.value(at, 0);
    }
    put_second_dx(t, group, r);
    add_second_dgamma(t, group, r);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel double_backward_ddy_without_gamma =
    double_backward(NG_LAYER_NORM, "broken/double_backward_ddy_without_gamma", run);

}  // namespace normgate::broken
