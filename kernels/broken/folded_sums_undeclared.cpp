// rejected by: gradients; looks like: folded form
// Sums g x and takes mean times sum(g) away: the difference cancels where the mean is large, which a centred claim
// does not allow for.
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
    float sum_g = 0;
    float sum_gx = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      sum_g += g_at(t, at);
      sum_gx += g_at(t, at) * t.x[at];
    }
    const float n = group.count();
    put_dx(t, group, s, sum_g / n, (sum_gx - s.mean * sum_g) * s.rstd / n);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel folded_sums_undeclared = backward(NG_LAYER_NORM, "broken/folded_sums_undeclared", run);

}  // namespace normgate::broken
