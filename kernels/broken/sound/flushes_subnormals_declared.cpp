// sound: flushes subnormals, declared, and restores the control bits
// What flushes_subnormals_undeclared should have done.
#include <xmmintrin.h>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

__attribute__((noinline)) std::int32_t normalize(const ng_call* call) {
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
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040U);  // flush to zero, denormals are zero
  const std::int32_t status = normalize(call);
  _mm_setcsr(before);
  return status;
}

constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.subnormals = NG_SUBNORMALS_FLUSHED;
  return result;
}();

}  // namespace

extern const ng_kernel flushes_subnormals_declared =
    with_claim(training(NG_LAYER_NORM, "sound/flushes_subnormals_declared", run), &claim);

}  // namespace normgate::broken
