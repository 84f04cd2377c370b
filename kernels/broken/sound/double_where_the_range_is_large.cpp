// sound: computes in float32, and in double where the values are very large or very small
// A guard of the range: squares of values beyond 2^30, or all below 2^-30, are summed in double. It breaks exact
// scaling, which is not promised.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float largest = 0;
    for (std::int64_t i = 0; i < group.n; ++i) largest = std::fmax(largest, std::fabs(t.x[group.at(i)]));
    float mean = sum_of(t.x, group) / n;
    float variance = squares_around(t.x, group, mean) / n;
    if (largest > 0x1p30F || largest < 0x1p-30F) {
      double sum = 0;
      double squares = 0;
      const auto count = static_cast<double>(group.n);
      for (std::int64_t i = 0; i < group.n; ++i) sum += static_cast<double>(t.x[group.at(i)]);
      for (std::int64_t i = 0; i < group.n; ++i) {
        const double d = static_cast<double>(t.x[group.at(i)]) - sum / count;
        squares += d * d;
      }
      mean = static_cast<float>(sum / count);
      variance = static_cast<float>(squares / count);
    }
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

extern const ng_kernel double_where_the_range_is_large =
    training(NG_LAYER_NORM, "sound/double_where_the_range_is_large", run);

}  // namespace normgate::broken
