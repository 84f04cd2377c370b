// sound: a reciprocal root of 12 bits and one Newton step, with the ulp it has, declared
// The seed is within 1.5*2^-12; one step leaves 1.5*(1.5*2^-12)^2 = 3.4u, and its own four roundings at most 3.1u: less
// than 7u, and 7 ulp.
#include <xmmintrin.h>

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
    const float variance = squares / n;
    const float v = variance + eps;
    const float seed = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(v)));
    const float rstd = seed * (1.5F - 0.5F * v * seed * seed);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.rsqrt_ulp = 7;
  return result;
}();

}  // namespace

extern const ng_kernel approximate_rsqrt_declared =
    with_claim(training(NG_LAYER_NORM, "sound/approximate_rsqrt_declared", run), &claim);

}  // namespace normgate::broken
