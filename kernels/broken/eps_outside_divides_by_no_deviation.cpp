// rejected by: single_value; looks like: dx not finite in groups without a variance
// eps stands outside the root, and the last term is divided by the deviation alone: 0/0 where all elements are equal.
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
      const float slope = (t.x[at] - t.mean[group.first]) / deviation;
      t.dx[at] = s.rstd * (g_at(t, at) - sums.g / n - slope * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel eps_outside_divides_by_no_deviation =
    with_convention(backward(NG_GROUP_NORM, "broken/eps_outside_divides_by_no_deviation", run), convention);

}  // namespace normgate::broken
