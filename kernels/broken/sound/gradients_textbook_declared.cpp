// sound: through the gradients of variance and mean, declared textbook
// With statistics that are not quite those of x this is another function than the short formula.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_claim claim = using_saved(NG_USE_TEXTBOOK);

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    const float n = group.count();
    float sum_g = 0;
    float sum_gd = 0;
    float sum_d = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float d = t.x[at] - s.mean;
      sum_g += g_at(t, at);
      sum_gd += g_at(t, at) * d;
      sum_d += d;
    }
    const float dvariance = -0.5F * (s.rstd * sum_gd) * s.rstd * s.rstd;
    const float dmean = -s.rstd * sum_g + dvariance * (-2 * sum_d) / n;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.dx[at] = g_at(t, at) * s.rstd + dvariance * 2 * (t.x[at] - s.mean) / n + dmean / n;
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_textbook_declared =
    with_claim(backward(NG_LAYER_NORM, "sound/gradients_textbook_declared", run), &claim);

}  // namespace normgate::broken
