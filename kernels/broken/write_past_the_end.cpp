// rejected by: memory; looks like: wrote past the end of y
// Stores whole vectors of 8. Rows are written in order, so that each repairs what the one before has spilled into it;
// nobody repairs behind the last.
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
    if (group.n == 0) continue;
    float* const last = &t.y[group.at(group.n - 1)];
    const std::int64_t step = t.y.stride[NG_K] > 0 ? t.y.stride[NG_K] : 1;
    for (std::int64_t lane = group.n % 8; lane != 0 && lane < 8; ++lane) last[(lane - group.n % 8 + 1) * step] = 0;
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel write_past_the_end = training(NG_LAYER_NORM, "broken/write_past_the_end", run);

}  // namespace normgate::broken
