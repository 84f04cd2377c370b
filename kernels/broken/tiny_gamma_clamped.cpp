// rejected by: gradients; looks like: gamma kept away from 0 in xhat
// x̂ is recovered from the output as (y - beta)/gamma, with |gamma| clamped to 1e-5: wrong where gamma is smaller.
// (NVIDIA/apex PR#1715)
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float recovered(const Tensors& t, const At& at) {
  const float gamma = t.gamma.value(at, 1);
  const float clamped = std::copysign(std::max(std::fabs(gamma), 1e-5F), gamma);
  return (t.y[at] - t.beta.value(at, 0)) / clamped;
}

constexpr ng_claim claim = using_saved(NG_USE_FROM_OUTPUT);

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float rstd = t.stat[group.first];
    const float n = group.count();
    Sums sums;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float g = g_at(t, at);
      const float xhat = recovered(t, at);
      sums.g += g;
      sums.g_xhat += g * xhat;
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * xhat;
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
    }
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.dx[at] = rstd * (g_at(t, at) - sums.g / n - recovered(t, at) * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel tiny_gamma_clamped =
    with_claim(backward(NG_LAYER_NORM, "broken/tiny_gamma_clamped", run), &claim);

}  // namespace normgate::broken
