// rejected by: accuracy; looks like: folded form
// Wrong behind the last whole vector of 8 only: the scalar tail computes x*a + b where the vectors are centred
// (pytorch/pytorch#108072 for all of the row).
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
      const float scale = rstd * t.gamma.value(at, 1);
      const float shift = t.beta.value(at, 0);
      t.y[at] = i < group.n / 8 * 8 ? (t.x[at] - mean) * scale + shift : t.x[at] * scale + (shift - mean * scale);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel folded_tail = training(NG_LAYER_NORM, "broken/folded_tail", run);

}  // namespace normgate::broken
