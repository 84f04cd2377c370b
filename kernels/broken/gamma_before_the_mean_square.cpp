// rejected by: accuracy; looks like: gain per group
// x is multiplied by gamma before its square is averaged: the gain of gamma is normalized away.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = 0;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float value = t.x[at] * t.gamma.value(at, 1);
      squares += value * value;
    }
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

extern const ng_kernel gamma_before_the_mean_square = training(NG_RMS_NORM, "broken/gamma_before_the_mean_square", run);

}  // namespace normgate::broken
