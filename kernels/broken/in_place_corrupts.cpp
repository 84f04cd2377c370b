// rejected by: layouts; looks like: -
// Claims y may be x, writes x - mean to y while it sums the squares, and then centres what it reads from x again.
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
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = t.x[at] - mean;
      squares += t.y[at] * t.y[at];
    }
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

extern const ng_kernel in_place_corrupts = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/in_place_corrupts", run);
  kernel.in_place = 1;
  return kernel;
}();

}  // namespace normgate::broken
