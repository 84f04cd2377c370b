// sound: a double backward with every bracket multiplied out, element by element
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
      const float xhat = xhat_at(t, at, r.s);
      const float u = t.ddx[at] - r.mean_u;
      const float g = g_at(t, at) - r.mean_g;
      const float h = h_at(t, at) - r.mean_h;
      const float gamma = t.gamma.value(at, 1);
      t.ddy[at] = t.ddbeta.value(at, 0) + gamma * r.s.rstd * u + t.ddgamma.value(at, 0) * xhat - gamma * r.a * xhat;
      t.dx[at] = r.curvature * xhat * r.a * r.b - xhat * r.q * r.s.rstd - xhat * r.c + r.s.rstd * h -
                 r.s.rstd * u * r.b - r.s.rstd * g * r.a;
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * u * r.s.rstd - t.dy[at] * xhat * r.a;
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel double_backward_multiplied_out =
    double_backward(NG_INSTANCE_NORM, "sound/double_backward_multiplied_out", run);

}  // namespace normgate::broken
