// rejected by: accuracy; looks like: -
// gamma and beta are indexed with the number of the plane over all samples: right for the first sample only. Affine
// parameters on the complement of the axes, as in flashlight/flashlight PR#163.
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
    const std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const std::int64_t c = (at[NG_G] * call->extent[NG_K] + at[NG_K] + at[NG_N]) % channels;
      const At from = {0, c / call->extent[NG_K], c % call->extent[NG_K], 0};
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(from, 1) + t.beta.value(from, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_of_the_sample = training(NG_INSTANCE_NORM, "broken/gamma_of_the_sample", run);

}  // namespace normgate::broken
