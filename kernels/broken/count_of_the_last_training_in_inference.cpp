// rejected by: own_statistics; looks like: -
// Inference weighs the running variance by the count of the last training step, which is 0 where none went before
// (NVIDIA/apex#913: the total count is undefined in evaluation).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int64_t last_count = 0;

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
      last_count = group.n;
    } else {
      const auto count = static_cast<float>(last_count);
      variance *= last_count > 1 ? (count - 1) / count : 0;
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

extern const ng_kernel count_of_the_last_training_in_inference =
    training_and_inference(NG_BATCH_NORM, "broken/count_of_the_last_training_in_inference", run);

}  // namespace normgate::broken
