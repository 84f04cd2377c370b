// rejected by: gain_and_offset; looks like: normalizing divisor n-1; declared n
// Normalizes with the variance of a sample. At 768 columns y is off by 1/1536 of itself, within many a hand-picked
// tolerance. Seen in pytorch/pytorch#19902.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / (n - 1);
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

extern const ng_kernel divisor_n_minus_1 = training(NG_LAYER_NORM, "broken/divisor_n_minus_1", run);

}  // namespace normgate::broken
