// rejected by: double_backward; looks like: -
// ddx reaches dx, and what comes through dgamma is forgotten there.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_second_dgamma(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const SecondSums r = second_sums(*call, t, group);
    put_ddy(t, group, r);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.dx[at] = (-r.b * t.ddx[at] - r.a * g_at(t, at)) * r.s.rstd +
                 (r.curvature * r.a * r.b - r.q * r.s.rstd) * xhat_at(t, at, r.s);
    }
    add_second_dgamma(t, group, r);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel double_backward_without_ddgamma =
    double_backward(NG_RMS_NORM, "broken/double_backward_without_ddgamma", run);

}  // namespace normgate::broken
