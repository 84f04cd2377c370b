// rejected by: epsilon; looks like: folded form
// y = x*a + b with the mean inside b, not declared: on a row of fourteens with a small eps, 14*a - 14*a leaves a
// remainder. Seen in pytorch/pytorch#108072.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float a = rstd * t.gamma.value(at, 1);
      const float b = t.beta.value(at, 0) - mean * a;
      t.y[at] = t.x[at] * a + b;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel folded_form = training(NG_LAYER_NORM, "broken/folded_form", run);

}  // namespace normgate::broken
