// rejected by: accuracy; looks like: one-pass variance
// The variance is the mean of the squares minus the square of the mean, clamped at 0: from |mean|/sigma of a few
// thousand on, nothing of it is left in float32. Seen in tensorflow/tensorflow PR#25115.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float sum = 0;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float x = t.x[group.at(i)];
      sum += x;
      squares += x * x;
    }
    const float mean = sum / n;
    const float difference = squares / n - mean * mean;
    const float variance = difference < 0 ? 0 : difference;
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

extern const ng_kernel one_pass_variance = training(NG_LAYER_NORM, "broken/one_pass_variance", run);

}  // namespace normgate::broken
