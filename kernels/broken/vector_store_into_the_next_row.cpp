// rejected by: accuracy; looks like: -
// Stores whole vectors of 8, last row first: the end of each row overwrites the first columns of the next. The last row
// stops where it should. Seen in ROCm/aiter#5044.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = group_count(*call); index-- > 0;) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    const bool last_row = index + 1 == group_count(*call) || call->extent[NG_S] > 1;
    for (std::int64_t lane = group.n % 8; !last_row && lane != 0 && lane < 8; ++lane) {
      const std::int64_t behind = group.n + lane - group.n % 8;
      if (behind < 2 * group.n) t.y[group.at(behind)] = 0;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel vector_store_into_the_next_row =
    training(NG_LAYER_NORM, "broken/vector_store_into_the_next_row", run);

}  // namespace normgate::broken
