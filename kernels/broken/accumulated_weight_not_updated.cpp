// rejected by: sequences; looks like: -
// The sums of mean and variance decay and take in the batch; their weight stays what it was.
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
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    if (t.running_mean.present() && group.n > 0) {
      float& running_mean = t.running_mean[group.first];
      float& running_var = t.running_var[group.first];
      running_mean = momentum * running_mean + mean;
      running_var = momentum * running_var + squares / (n - 1);
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
  result.momentum_form = NG_MOMENTUM_ACCUMULATED;
  return result;
}();

const ng_convention* convention(std::int32_t) { return &declared; }

}  // namespace

extern const ng_kernel accumulated_weight_not_updated = [] {
  ng_kernel kernel = training(NG_BATCH_NORM, "broken/accumulated_weight_not_updated", run);
  kernel.supported_roles[NG_FORWARD_TRAINING] |= NG_ROLE_BIT(NG_RUNNING_WEIGHT);
  return with_convention(kernel, convention);
}();

}  // namespace normgate::broken
