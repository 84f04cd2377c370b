// sound: eps outside the root: the last term is over the deviation without it
// Handed the variance, from which both are known; the term is 0 where there is no deviation.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.eps_placement = NG_EPS_OUTSIDE;
  result.saved_statistic = NG_SAVED_VARIANCE;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float deviation = std::sqrt(t.stat[group.first]);
    const Statistics s{t.mean[group.first], 1 / (deviation + static_cast<float>(call->eps))};
    add_parameter_gradients(t, group, s);
    const Sums sums = sums_of(t, group, s);
    const float n = group.count();
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float slope = deviation == 0 ? 0 : (t.x[at] - t.mean[group.first]) / deviation;
      t.dx[at] = s.rstd * (g_at(t, at) - sums.g / n - slope * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_with_eps_outside =
    with_convention(backward(NG_GROUP_NORM, "sound/gradients_with_eps_outside", run), convention);

}  // namespace normgate::broken
