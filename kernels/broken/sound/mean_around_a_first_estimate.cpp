// sound: the mean is summed once more, around a first estimate, in double
// x less a first mean, summed in double, corrects that mean to within a rounding; squares are then taken around the
// corrected one. With the variance corrected instead (sum of d^2 less n times the square of the mean of d) and the mean
// left as it is, y of nearly constant rows would be further off than that of two passes, which the mean's error widens
// the variance of.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float estimate = sum_of(t.x, group) / n;
    double rest = 0;
    for (std::int64_t i = 0; i < group.n; ++i)
      rest += static_cast<double>(t.x[group.at(i)]) - static_cast<double>(estimate);
    const auto mean = static_cast<float>(static_cast<double>(estimate) + rest / static_cast<double>(group.n));
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

extern const ng_kernel mean_around_a_first_estimate =
    training(NG_LAYER_NORM, "sound/mean_around_a_first_estimate", run);

}  // namespace normgate::broken
