// rejected by: epsilon; looks like: eps added to a variance of at least eps
// The variance is raised to eps, and eps is added all the same: right to rounding where the variance is large, off by a
// root of 2 where it is small. Clamps and sums of eps are mixed up in vacancy/Synchronized-BatchNorm-PyTorch#43.
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
    float variance = squares / n;
    if (variance < eps) variance = eps;
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

extern const ng_kernel eps_behind_a_clamp = training(NG_LAYER_NORM, "broken/eps_behind_a_clamp", run);

}  // namespace normgate::broken
