// rejected by: epsilon; looks like: eps rounded to float16
// eps passes through float16: 1e-8 becomes 0 and 1e-5 becomes 1.0014e-5. Seen in apache/tvm PR#9806.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

// float16: 11 significant bits down to 2^-14, multiples of 2^-24 below.
float rounded_to_half(float x) {
  const float unit = std::ldexp(1.0F, std::ilogb(std::fmax(x, 0x1p-14F)) - 10);
  return std::nearbyint(x / unit) * unit;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const float eps = rounded_to_half(static_cast<float>(call->eps));
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

extern const ng_kernel eps_rounded_to_half = training(NG_LAYER_NORM, "broken/eps_rounded_to_half", run);

}  // namespace normgate::broken
