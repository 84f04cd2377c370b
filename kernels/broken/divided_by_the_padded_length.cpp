// rejected by: accuracy; looks like: padding counted in the statistics
// Right at multiples of 8: sums are over the elements, and the divisor counts the lanes that mask the end of the row
// (tile-ai/TileOPs#429).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const auto count = static_cast<float>((group.n + 7) / 8 * 8);
    const float mean = sum_of(t.x, group) / count;
    const float variance = squares_around(t.x, group, mean) / count;
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

extern const ng_kernel divided_by_the_padded_length =
    training(NG_LAYER_NORM, "broken/divided_by_the_padded_length", run);

}  // namespace normgate::broken
