// sound: decayed sums with their accumulated weight, declared
// Caffe's state: decayed sums and their weight, by which inference divides; kept in float32.
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
        running_mean = momentum * running_mean + mean;
        running_var = momentum * running_var + squares / (n - 1);
        if (index == 0) t.running_weight[At{}] = momentum * t.running_weight[At{}] + 1;
      }
    } else {
      const float factor = 1 / t.running_weight[At{}];
      mean *= factor;
      variance *= factor;
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

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.momentum_form = NG_MOMENTUM_ACCUMULATED;
  return result;
}();

const ng_convention* convention(std::int32_t) { return &declared; }

}  // namespace

extern const ng_kernel accumulated_weight = [] {
  ng_kernel kernel = training_and_inference(NG_BATCH_NORM, "sound/accumulated_weight", run);
  kernel.supported_roles[NG_FORWARD_TRAINING] |= NG_ROLE_BIT(NG_RUNNING_WEIGHT);
  kernel.supported_roles[NG_FORWARD_INFERENCE] |= NG_ROLE_BIT(NG_RUNNING_WEIGHT);
  kernel.required_roles[NG_FORWARD_INFERENCE] |= NG_ROLE_BIT(NG_RUNNING_WEIGHT);
  return with_convention(kernel, convention);
}();

}  // namespace normgate::broken
