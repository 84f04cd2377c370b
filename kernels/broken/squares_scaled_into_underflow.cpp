// rejected by: epsilon; looks like: -
// Deviations are scaled by 2^-30 against overflow before they are squared, also where they are small: the squares
// underflow.
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
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = (t.x[group.at(i)] - mean) * 0x1p-30F;
      squares += d * d;
    }
    const float variance = squares / n * 0x1p60F;
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

extern const ng_kernel squares_scaled_into_underflow =
    training(NG_LAYER_NORM, "broken/squares_scaled_into_underflow", run);

}  // namespace normgate::broken
