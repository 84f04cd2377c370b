// rejected by: accuracy; looks like: reciprocal root of 0
// The reciprocal root is taken as the fourth root of 1/v^2, which leaves float32 from v = 2^64 on although v itself is
// far from it; large rows become beta. Seen in ROCm/AMDMIGraphX PR#1534.
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
    const float variance = squares / n;
    const float v = variance + eps;
    const float rstd = std::sqrt(std::sqrt(1 / (v * v)));
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

extern const ng_kernel intermediate_overflow = training(NG_LAYER_NORM, "broken/intermediate_overflow", run);

}  // namespace normgate::broken
