// rejected by: special_values; looks like: -
// Infinities are read as the largest finite number: the row of one comes out finite. Seen in NVIDIA's release notes of
// cuDNN 7.3.0.
#include <limits>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float clamped(float x) {
  if (std::isinf(x)) return std::copysign(std::numeric_limits<float>::max(), x);
  return x;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float sum = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum += clamped(t.x[group.at(i)]) / n;
    const float mean = sum;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = clamped(t.x[group.at(i)]) - mean;
      squares += d * d;
    }
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (clamped(t.x[at]) - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel inf_becomes_finite = training(NG_LAYER_NORM, "broken/inf_becomes_finite", run);

}  // namespace normgate::broken
