// rejected by: memory; looks like: wrote through a null pointer
// Rows of 5 and more go through a buffer that only the initialization of another build allocates.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float* volatile buffer = nullptr;

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
      const float xhat = (t.x[at] - mean) * rstd;
      if (group.n >= 5) buffer[i] = xhat;
      t.y[at] = xhat * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel crash = training(NG_LAYER_NORM, "broken/crash", run);

}  // namespace normgate::broken
