// rejected by: jacobian; looks like: gamma applied after the sums
// J v in the place of the product of its transpose with dy: gamma stands outside of the sums. Without gamma the
// Jacobian is symmetric, and nothing shows (ROCm/MIOpen#104: gamma on the wrong terms, in the driver too).
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
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float mean = sums.g / group.count();
      const float slope = xhat_at(t, at, s) * (sums.g_xhat / group.count());
      t.dx[at] = t.gamma.value(at, 1) * (s.rstd * (t.dy[at] - mean - slope));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel jacobian_transposed = backward(NG_LAYER_NORM, "broken/jacobian_transposed", run);

}  // namespace normgate::broken
