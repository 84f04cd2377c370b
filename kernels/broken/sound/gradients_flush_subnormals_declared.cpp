// sound: flushes subnormals, declared, and restores the control bits
#include <xmmintrin.h>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

__attribute__((noinline)) std::int32_t differentiate(const ng_call* call) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040U);  // flush to zero, denormals are zero
  const std::int32_t status = differentiate(call);
  _mm_setcsr(before);
  return status;
}

constexpr ng_claim claim = [] {
  ng_claim result = short_use;
  result.subnormals = NG_SUBNORMALS_FLUSHED;
  return result;
}();

}  // namespace

extern const ng_kernel gradients_flush_subnormals_declared =
    with_claim(backward(NG_LAYER_NORM, "sound/gradients_flush_subnormals_declared", run), &claim);

}  // namespace normgate::broken
