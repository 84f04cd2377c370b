// rejected by: accuracy; looks like: parameters in the order K G
// The channels of gamma and beta are counted as k*G+g where they stand as g*K+k: right with one group, or with one
// channel per group.
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
    const std::int64_t groups = call->extent[NG_G];
    const std::int64_t channels = call->extent[NG_K];
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const std::int64_t c = at[NG_K] * groups + at[NG_G];
      const At from = {0, c / channels, c % channels, 0};
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(from, 1) + t.beta.value(from, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_in_the_order_k_g = training(NG_GROUP_NORM, "broken/gamma_in_the_order_k_g", run);

}  // namespace normgate::broken
