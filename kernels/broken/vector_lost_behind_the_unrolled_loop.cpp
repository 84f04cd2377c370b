// rejected by: accuracy; looks like: gain per group
// Wrong where 5 vectors of 16 are left behind a loop of 8 of them (80 to 95 elements modulo 128), and only from 128 on:
// the last of the five is not in the variance.
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
    const std::int64_t vectors = group.n / 16;
    const std::int64_t lost = vectors > 8 && vectors % 8 == 5 ? vectors - 1 : -1;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - mean;
      if (i / 16 != lost) squares += d * d;
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

extern const ng_kernel vector_lost_behind_the_unrolled_loop =
    training(NG_LAYER_NORM, "broken/vector_lost_behind_the_unrolled_loop", run);

}  // namespace normgate::broken
