// rejected by: affine; looks like: -
// Gamma is clamped to the range of float16, for which the kernel was written, but keeps its float32 mantissa.
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) squares += t.x[group.at(i)] * t.x[group.at(i)];
    const float rstd = 1 / std::sqrt(squares / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float gamma = std::clamp(t.gamma.value(at, 1), -65504.0F, 65504.0F);
      t.y[at] = t.x[at] * rstd * gamma + t.beta.value(at, 0);
    }
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_saturates_at_65504 = training(NG_RMS_NORM, "broken/gamma_saturates_at_65504", run);

}  // namespace normgate::broken
