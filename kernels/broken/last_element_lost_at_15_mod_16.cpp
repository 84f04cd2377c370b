// rejected by: accuracy; looks like: tail left out of the statistics
// The mask of the last vector of 16 has one lane too few where 15 are in use: at lengths of 15 modulo 16, and only
// there, the last element is not in the variance.
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
    const std::int64_t end = group.n % 16 == 15 && group.n > 16 ? group.n - 1 : group.n;
    float squares = 0;
    for (std::int64_t i = 0; i < end; ++i) {
      const float d = t.x[group.at(i)] - mean;
      squares += d * d;
    }
    const float variance = squares / n;
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

extern const ng_kernel last_element_lost_at_15_mod_16 =
    training(NG_LAYER_NORM, "broken/last_element_lost_at_15_mod_16", run);

}  // namespace normgate::broken
