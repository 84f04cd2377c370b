// rejected by: accuracy; looks like: -
// Wrong from 16 elements on: of 16 partial sums 15 are added up.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float lanes[16] = {};
    for (std::int64_t i = 0; i < group.n; ++i) lanes[i % 16] += t.x[group.at(i)];
    float sum = 0;
    for (int lane = 0; lane < (group.n < 16 ? 16 : 15); ++lane) sum += lanes[lane];
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

extern const ng_kernel last_lane_not_reduced = training(NG_LAYER_NORM, "broken/last_lane_not_reduced", run);

}  // namespace normgate::broken
