// rejected by: memory; looks like: wrote to the input
// Folds the reciprocal standard deviation into gamma itself, and divides it out again: gamma comes back, up to
// rounding.
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
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      if (t.gamma.present()) t.gamma[at] *= rstd;
      t.y[at] = (t.x[at] - mean) * t.gamma.value(at, rstd) + t.beta.value(at, 0);
      if (t.gamma.present()) t.gamma[at] /= rstd;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel clobbered_gamma = training(NG_LAYER_NORM, "broken/clobbered_gamma", run);

}  // namespace normgate::broken
