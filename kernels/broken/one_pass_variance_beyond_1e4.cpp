// rejected by: accuracy; looks like: one-pass variance
// Centred as long as it does not matter: where the mean is more than 1e4 deviations, and only there, the variance is
// the mean of squares less the square of the mean.
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
    float variance = squares / n;
    if (std::fabs(mean) > 1e4F * std::sqrt(variance)) {
      float sum = 0;
      for (std::int64_t i = 0; i < group.n; ++i) sum += t.x[group.at(i)] * t.x[group.at(i)];
      variance = sum / n - mean * mean;
      if (variance < 0) variance = 0;
    }
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

extern const ng_kernel one_pass_variance_beyond_1e4 =
    training(NG_LAYER_NORM, "broken/one_pass_variance_beyond_1e4", run);

}  // namespace normgate::broken
