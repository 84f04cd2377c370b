// rejected by: layouts; looks like: -
// The statistics follow the strides; the pass that normalizes reads x as if it were contiguous.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  View dense = t.x;
  dense.stride[NG_S] = 1;
  for (std::size_t a = NG_S; a-- > 0;) dense.stride[a] = dense.stride[a + 1] * call->extent[a + 1];
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x.data[dense.offset(at)] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel strides_ignored_in_second_pass = with_layouts(
    training(NG_LAYER_NORM, "broken/strides_ignored_in_second_pass", run), NG_LAYOUT_PADDED | NG_LAYOUT_STRIDED);

}  // namespace normgate::broken
