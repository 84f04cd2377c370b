// rejected by: accuracy; looks like: statistics over other axes
// Normalizes over the last axis alone where the group spans two: right as long as the first of them has length 1. Seen
// in ooples/AiDotNet.Tensors PR#730.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const std::int64_t columns = call->extent[NG_K];
    float mean = 0;
    float rstd = 0;
    for (std::int64_t begin = 0; begin < group.n; begin += columns) {
      const auto n = static_cast<float>(columns);
      float sum = 0;
      for (std::int64_t i = begin; i < begin + columns; ++i) sum += t.x[group.at(i)];
      mean = sum / n;
      float squares = 0;
      for (std::int64_t i = begin; i < begin + columns; ++i) {
        const float d = t.x[group.at(i)] - mean;
        squares += d * d;
      }
      rstd = 1 / std::sqrt(squares / n + eps);
      for (std::int64_t i = begin; i < begin + columns; ++i) {
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

extern const ng_kernel last_axis_only = training(NG_LAYER_NORM, "broken/last_axis_only", run);

}  // namespace normgate::broken
