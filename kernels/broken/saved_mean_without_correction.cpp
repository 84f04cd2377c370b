// rejected by: shift_invariance; looks like: -
// Groups that hardly vary, a millionth of their size, are shifted by their first element before they are summed; what
// is saved as their mean is that element. y is right.
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float first = group.n > 0 ? t.x[group.first] : 0;
    float largest = 0;
    float correction = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - first;
      largest = std::max(largest, std::fabs(d));
      correction += d;
    }
    const bool shifted = largest < std::fabs(first) * 0x1p-20F;
    const float mean = shifted ? first + correction / n : sum_of(t.x, group) / n;
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, shifted ? first : mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel saved_mean_without_correction =
    training(NG_INSTANCE_NORM, "broken/saved_mean_without_correction", run);

}  // namespace normgate::broken
