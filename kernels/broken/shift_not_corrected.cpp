// rejected by: accuracy; looks like: gain per group
// Squares are summed around the first element, which is no mean, and the correction for the distance is forgotten.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float shift = group.n > 0 ? t.x[group.first] : 0;
    float sum = 0;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - shift;
      sum += d;
      squares += d * d;
    }
    const float mean = shift + sum / n;
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel shift_not_corrected = training(NG_LAYER_NORM, "broken/shift_not_corrected", run);

}  // namespace normgate::broken
