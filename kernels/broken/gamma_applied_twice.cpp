// rejected by: gradients; looks like: gamma twice beside the sums of dx
// g has been multiplied by gamma before it is read, and is multiplied once more in the output. It cannot be seen with
// a gamma of 1.
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
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float g = g_at(t, at) * t.gamma.value(at, 1);
      t.dx[at] = s.rstd * (g - sums.g / n - xhat_at(t, at, s) * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_applied_twice = backward(NG_INSTANCE_NORM, "broken/gamma_applied_twice", run);

}  // namespace normgate::broken
