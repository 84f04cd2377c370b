// rejected by: accuracy; looks like: padding counted in the statistics
// The lanes that mask the end of a row hold 0 and are centred with the others: each adds the square of the mean to the
// variance. Seen in tenstorrent/tt-metal#50682.
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
    const auto masked = static_cast<float>((8 - group.n % 8) % 8);
    const float variance = (squares + masked * mean * mean) / n;
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

extern const ng_kernel padding_in_statistics = training(NG_LAYER_NORM, "broken/padding_in_statistics", run);

}  // namespace normgate::broken
