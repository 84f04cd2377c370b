// sound: dx = (n g - sum of g - x̂ times sum of g x̂) r/n
// The means are never formed: everything is n times as large until the last product.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    const Sums sums = sums_of(t, group, s);
    const float n = group.count();
    const float factor = s.rstd / n;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.dx[at] = factor * (n * g_at(t, at) - sums.g - xhat_at(t, at, s) * sums.g_xhat);
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_times_n = backward(NG_LAYER_NORM, "sound/gradients_times_n", run);

}  // namespace normgate::broken
