// rejected by: range; looks like: flushed subnormals
// Outputs below 2^-126 are written as 0, and that subnormals are flushed is not declared.
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
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float y = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
      t.y[at] = std::fabs(y) < 0x1p-126F ? 0 : y;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel subnormal_outputs_flushed = training(NG_LAYER_NORM, "broken/subnormal_outputs_flushed", run);

}  // namespace normgate::broken
