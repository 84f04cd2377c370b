// rejected by: special_gradients; looks like: -
// Upstream gradients are clipped to 65504, the largest float16, as some trainings ask for elsewhere.
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float clipped(float dy) { return std::isnan(dy) ? dy : std::clamp(dy, -65504.0F, 65504.0F); }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    Sums sums;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float g = clipped(t.dy[at]) * t.gamma.value(at, 1);
      sums.g += g;
      sums.g_xhat += g * xhat_at(t, at, s);
      if (t.dgamma.present()) t.dgamma[at] += clipped(t.dy[at]) * xhat_at(t, at, s);
      if (t.dbeta.present()) t.dbeta[at] += clipped(t.dy[at]);
    }
    const float n = group.count();
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float g = clipped(t.dy[at]) * t.gamma.value(at, 1);
      t.dx[at] = s.rstd * (g - sums.g / n - xhat_at(t, at, s) * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel infinite_cotangent_becomes_finite =
    backward(NG_LAYER_NORM, "broken/infinite_cotangent_becomes_finite", run);

}  // namespace normgate::broken
