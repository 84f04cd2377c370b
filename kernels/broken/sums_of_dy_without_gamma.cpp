// rejected by: finite_differences; looks like: gamma missing in the sums of dx
// The two means are of dy, not of dy gamma, although g itself is right; a driver that checked such a kernel had the
// same mistake (ROCm/MIOpen#104).
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
    Sums sums;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      sums.g += t.dy[at];
      sums.g_xhat += t.dy[at] * xhat_at(t, at, s);
    }
    put_dx(t, group, s, sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel sums_of_dy_without_gamma = backward(NG_GROUP_NORM, "broken/sums_of_dy_without_gamma", run);

}  // namespace normgate::broken
