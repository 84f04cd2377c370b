// rejected by: range; looks like: -
// Whether a row is finite is asked of its sum of squares, which overflows where the mean is beyond 2^63 although no
// deviation is: such rows become NaN.
#include <limits>

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
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / n + eps);
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) squares += t.x[group.at(i)] * t.x[group.at(i)];
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = std::isfinite(squares) ? (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0)
                                       : std::numeric_limits<float>::quiet_NaN();
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel finite_by_the_sum_of_squares =
    training(NG_GROUP_NORM, "broken/finite_by_the_sum_of_squares", run);

}  // namespace normgate::broken
