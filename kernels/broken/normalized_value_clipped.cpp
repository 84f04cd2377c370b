// rejected by: accuracy; looks like: normalized value clipped
// The normalized value is held between -10 and 10, as an export for integer arithmetic wants it: an outlier is not.
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
      float value = (t.x[at] - mean) * rstd;
      if (value > 10) value = 10;
      if (value < -10) value = -10;
      t.y[at] = value * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel normalized_value_clipped = training(NG_LAYER_NORM, "broken/normalized_value_clipped", run);

}  // namespace normgate::broken
