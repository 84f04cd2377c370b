// rejected by: gradients; looks like: absolute value of gamma
// x̂ is recovered from the output with |gamma|: right for networks whose gammas stayed positive.
// (mapillary/inplace_abn#92)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float recovered(const Tensors& t, const At& at) {
  return (t.y[at] - t.beta.value(at, 0)) / std::fabs(t.gamma.value(at, 1));
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

extern const ng_kernel gamma_taken_for_positive =
    with_claim(backward(NG_BATCH_NORM, "broken/gamma_taken_for_positive", run), &claim);

}  // namespace normgate::broken
