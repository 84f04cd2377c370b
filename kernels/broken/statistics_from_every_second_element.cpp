// rejected by: zero_mean_unit_variance; looks like: every second element left out of the statistics
// Estimates mean and variance from every second element, to save half the reads: a good guess for white noise, and
// never zero mean.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    float sum = 0;
    for (std::int64_t i = 0; i < group.n; i += 2) sum += t.x[group.at(i)];
    const float sampled = static_cast<float>((group.n + 1) / 2);
    const float mean = sum / sampled;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; i += 2) {
      const float d = t.x[group.at(i)] - mean;
      squares += d * d;
    }
    const float variance = squares / sampled;
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

extern const ng_kernel statistics_from_every_second_element =
    training(NG_LAYER_NORM, "broken/statistics_from_every_second_element", run);

}  // namespace normgate::broken
