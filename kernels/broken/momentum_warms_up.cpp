// rejected by: running_statistics; looks like: -
// The weight of the old value grows with the number of steps, min(1-m, (1+s)/(10+s)), as moving averages of parameters
// do; the declared momentum is reached late.
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto momentum = static_cast<float>(call->momentum);
  const auto step = static_cast<float>(call->step);
  const float decay = std::min(1 - momentum, (1 + step) / (10 + step));
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
      running_mean = decay * running_mean + (1 - decay) * mean;
      running_var = decay * running_var + (1 - decay) * (squares / (n - 1));
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

}  // namespace

extern const ng_kernel momentum_warms_up = training(NG_BATCH_NORM, "broken/momentum_warms_up", run);

}  // namespace normgate::broken
