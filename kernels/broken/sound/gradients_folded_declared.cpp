// sound: dx = g r + x b + c, with sums of g and g x, declared folded
// PyTorch's form for the CPU: b = (mean sum(g) - sum(g x)) r^3/n, c = -mean b - sum(g) r/n.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_claim claim = [] {
  ng_claim result = short_use;
  result.form = NG_FOLDED;
  return result;
}();

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
    const float b = (sum_g * s.mean - sum_gx) * s.rstd * s.rstd * s.rstd / n;
    const float c = -b * s.mean - sum_g * s.rstd / n;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.dx[at] = g_at(t, at) * s.rstd + t.x[at] * b + c;
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_folded_declared =
    with_claim(backward(NG_GROUP_NORM, "sound/gradients_folded_declared", run), &claim);

}  // namespace normgate::broken
