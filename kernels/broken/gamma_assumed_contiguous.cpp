// rejected by: layouts; looks like: -
// Claims any stride and asks x and y for theirs; gamma is taken to be contiguous.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  if (t.gamma.present()) t.gamma.stride = {0, call->extent[NG_K], 1, 0};
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

}  // namespace

extern const ng_kernel gamma_assumed_contiguous =
    with_layouts(training(NG_LAYER_NORM, "broken/gamma_assumed_contiguous", run),
                 NG_LAYOUT_PADDED | NG_LAYOUT_STRIDED | NG_LAYOUT_MIXED);

}  // namespace normgate::broken
