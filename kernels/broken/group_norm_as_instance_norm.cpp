// rejected by: accuracy; looks like: statistics over other axes
// A single group is executed as instance norm: each channel gets a mean of its own. Seen in NVIDIA/TensorRT#4756.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const bool per_channel = call->extent[NG_G] == 1;
    const std::int64_t length = per_channel ? call->extent[NG_S] : group.n;
    float mean = 0;
    float rstd = 0;
    for (std::int64_t begin = 0; begin < group.n; begin += length) {
      const auto n = static_cast<float>(length);
      float sum = 0;
      for (std::int64_t i = begin; i < begin + length; ++i) sum += t.x[group.at(i)];
      mean = sum / n;
      float squares = 0;
      for (std::int64_t i = begin; i < begin + length; ++i) {
        const float d = t.x[group.at(i)] - mean;
        squares += d * d;
      }
      rstd = 1 / std::sqrt(squares / n + eps);
      for (std::int64_t i = begin; i < begin + length; ++i) {
        const At at = group.at(i);
        t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
      }
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel group_norm_as_instance_norm = training(NG_GROUP_NORM, "broken/group_norm_as_instance_norm", run);

}  // namespace normgate::broken
