// rejected by: layouts; looks like: -
// Sums over the gap behind a row as if it held zeros.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const bool last_row = index + 1 == group_count(*call) || call->extent[NG_S] > 1 || call->extent[NG_G] > 1;
    const std::int64_t gap = last_row || group.n == 0 ? 0 : t.x.stride[NG_N] - group.n * t.x.stride[NG_K];
    float sum = sum_of(t.x, group);
    for (std::int64_t i = 0; i < gap; ++i) sum += *(&t.x[group.at(group.n - 1)] + 1 + i);
    const float mean = sum / n;
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

extern const ng_kernel padding_gap_in_statistics =
    with_layouts(training(NG_LAYER_NORM, "broken/padding_gap_in_statistics", run), NG_LAYOUT_PADDED);

}  // namespace normgate::broken
