// sound: sequential float32 with every promise that it can keep
// A plain loop has the same bits for a row in every batch and layout; all its steps scale with powers of two.
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
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_claim claim =
    promising(NG_SCALE_COVARIANT | NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT | NG_DIVIDES_BY_N | NG_LAYOUT_INVARIANT);

}  // namespace

extern const ng_kernel promises_kept =
    with_layouts(with_claim(training(NG_LAYER_NORM, "sound/promises_kept", run), &claim),
                 NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED | NG_LAYOUT_STRIDED | NG_LAYOUT_MIXED);

}  // namespace normgate::broken
