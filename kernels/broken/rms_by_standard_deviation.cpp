// rejected by: accuracy; looks like: gain per group
// An RMS norm that divides by the standard deviation: a constant row is divided by the root of eps. Seen in
// keras-team/keras PR#22393.
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
    const float mean_square = squares / n;
    const float rrms = 1 / std::sqrt(mean_square + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = t.x[at] * rrms * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.stat.put(group.first, rrms);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel rms_by_standard_deviation = training(NG_RMS_NORM, "broken/rms_by_standard_deviation", run);

}  // namespace normgate::broken
