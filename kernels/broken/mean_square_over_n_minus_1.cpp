// rejected by: gain_and_offset; looks like: mean square over n-1
// The divisor of a sample variance under a mean square, which no mean has cost a degree of freedom.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = 0;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / (group.n > 1 ? n - 1 : n);
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

extern const ng_kernel mean_square_over_n_minus_1 = training(NG_RMS_NORM, "broken/mean_square_over_n_minus_1", run);

}  // namespace normgate::broken
