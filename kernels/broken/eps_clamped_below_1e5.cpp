// rejected by: epsilon; looks like: eps raised to 1e-5
// An eps below 1e-5 is silently raised to it, as a library underneath demands. Seen in tensorflow/tensorflow#8090.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const float eps = std::fmax(static_cast<float>(call->eps), 1e-5F);
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
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel eps_clamped_below_1e5 = training(NG_LAYER_NORM, "broken/eps_clamped_below_1e5", run);

}  // namespace normgate::broken
