// rejected by: special_values; looks like: -
// The variance is kept above 0 with a maximum that prefers a number to NaN, and the mean of a NaN row is replaced too:
// finite and meaningless.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = std::fmax(sum_of(t.x, group) / n, -3e38F);
    const float squares = squares_around(t.x, group, mean);
    const float variance = std::fmax(squares / n, 0.0F);
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

extern const ng_kernel variance_hides_nan = training(NG_LAYER_NORM, "broken/variance_hides_nan", run);

}  // namespace normgate::broken
