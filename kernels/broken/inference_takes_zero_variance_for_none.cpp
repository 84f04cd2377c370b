// rejected by: accuracy; looks like: -
// A running variance of 0 is taken for one that was never set, and 1 is used: a constant channel is no longer divided
// by the root of eps.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto momentum = static_cast<float>(call->momentum);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float mean = t.running_mean.value(group.first, 0);
    float variance = t.running_var.value(group.first, 1);
    if (call->phase == NG_FORWARD_TRAINING) {
      mean = sum_of(t.x, group) / n;
      const float squares = squares_around(t.x, group, mean);
      variance = squares / n;
      if (t.running_mean.present() && group.n > 0) {
        float& running_mean = t.running_mean[group.first];
        float& running_var = t.running_var[group.first];
        running_mean = (1 - momentum) * running_mean + momentum * mean;
        running_var = (1 - momentum) * running_var + momentum * (squares / (n - 1));
      }
    } else if (variance == 0) {
      variance = 1;
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

extern const ng_kernel inference_takes_zero_variance_for_none =
    training_and_inference(NG_BATCH_NORM, "broken/inference_takes_zero_variance_for_none", run);

}  // namespace normgate::broken
