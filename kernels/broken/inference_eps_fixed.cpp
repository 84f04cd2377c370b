// rejected by: epsilon; looks like: eps 1e-5 whatever is given
// In inference scale and shift are folded beforehand, with an eps of 1e-5 whatever the layer's is. Seen in
// PaddlePaddle/Paddle-Lite PR#9861.
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
    }
    const float used_eps = call->phase == NG_FORWARD_TRAINING ? eps : 1e-5F;
    const float rstd = 1 / std::sqrt(variance + used_eps);
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

extern const ng_kernel inference_eps_fixed = training_and_inference(NG_BATCH_NORM, "broken/inference_eps_fixed", run);

}  // namespace normgate::broken
