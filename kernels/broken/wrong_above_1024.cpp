// rejected by: accuracy; looks like: -
// Columns beyond the largest block are ignored: not in the statistics, and left at 0. Seen in
// facebookresearch/xformers#785.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const std::int64_t columns = group.n < 1024 ? group.n : 1024;
    const auto n = static_cast<float>(columns);
    float sum = 0;
    for (std::int64_t i = 0; i < columns; ++i) sum += t.x[group.at(i)];
    const float mean = sum / n;
    float squares = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      const float d = t.x[group.at(i)] - mean;
      squares += d * d;
    }
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = 0;
      if (i < columns) t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel wrong_above_1024 = training(NG_LAYER_NORM, "broken/wrong_above_1024", run);

}  // namespace normgate::broken
