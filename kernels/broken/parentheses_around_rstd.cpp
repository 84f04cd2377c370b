// rejected by: finite_differences; looks like: means of dx not divided by D
// r g - mean(g) - x̂ mean(g x̂): the parentheses are forgotten, and only g is divided by the deviation.
// (LBANN/lbann PR#1172)
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
      t.dx[at] = s.rstd * g_at(t, at) - sums.g / n - xhat_at(t, at, s) * (sums.g_xhat / n);
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel parentheses_around_rstd = backward(NG_LAYER_NORM, "broken/parentheses_around_rstd", run);

}  // namespace normgate::broken
