// rejected by: sign_symmetry; looks like: -
// The sum with beta is rounded upwards, as interval arithmetic would have it: an error of up to one unit in the last
// place more, which every bound has room for.
#include <limits>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float added_upwards(float a, float b) {
  const double sum = static_cast<double>(a) + static_cast<double>(b);
  const auto nearest = static_cast<float>(sum);
  return static_cast<double>(nearest) < sum ? std::nextafter(nearest, std::numeric_limits<float>::infinity()) : nearest;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float scaled = (t.x[at] - mean) * rstd * t.gamma.value(at, 1);
      t.y[at] = added_upwards(scaled, t.beta.value(at, 0));
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel last_addition_rounds_upwards =
    training(NG_LAYER_NORM, "broken/last_addition_rounds_upwards", run);

}  // namespace normgate::broken
