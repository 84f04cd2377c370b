// sound: momentum is 1/step, declared; a single value leaves running_var unchanged
// The average of all batches, as old + (batch - old)/step; one value per channel leaves the variance as it is.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto steps = static_cast<float>(call->step);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    if (t.running_mean.present() && group.n > 0) {
      float& running_mean = t.running_mean[group.first];
      float& running_var = t.running_var[group.first];
      running_mean += (mean - running_mean) / steps;
      if (group.n > 1) running_var += (squares / (n - 1) - running_var) / steps;
    }
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.momentum_form = NG_MOMENTUM_CUMULATIVE;
  result.single_count = NG_SINGLE_UNCHANGED;
  return result;
}();

const ng_convention* convention(std::int32_t) { return &declared; }

}  // namespace

extern const ng_kernel cumulative_average =
    with_convention(training(NG_BATCH_NORM, "sound/cumulative_average", run), convention);

}  // namespace normgate::broken
