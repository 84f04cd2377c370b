// sound: no last term at or below the floor
// Handed the variance, which decides.
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.eps_placement = NG_EPS_FLOOR;
  result.saved_statistic = NG_SAVED_VARIANCE;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float variance = t.stat[group.first];
    const auto eps = static_cast<float>(call->eps);
    const Statistics s{t.mean[group.first], 1 / std::sqrt(std::max(variance, eps))};
    add_parameter_gradients(t, group, s);
    const Sums sums = sums_of(t, group, s);
    put_dx(t, group, s, sums.g / group.count(), variance > eps ? sums.g_xhat / group.count() : 0);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_with_eps_as_a_floor =
    with_convention(backward(NG_INSTANCE_NORM, "sound/gradients_with_eps_as_a_floor", run), convention);

}  // namespace normgate::broken
