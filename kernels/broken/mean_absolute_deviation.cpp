// rejected by: accuracy; looks like: mean absolute deviation
// The mean of the moduli of the deviations in place of the root of the mean of their squares.
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
    float moduli = 0;
    for (std::int64_t i = 0; i < group.n; ++i) moduli += std::fabs(t.x[group.at(i)] - mean);
    const float deviation = moduli / n;
    const float variance = deviation * deviation;
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

extern const ng_kernel mean_absolute_deviation = training(NG_LAYER_NORM, "broken/mean_absolute_deviation", run);

}  // namespace normgate::broken
