// rejected by: gradients; looks like: gradients of the parameters in float16
// The running totals of dgamma and dbeta are rounded to float16 after each row (linkedin/Liger-Kernel PR#950).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

// To 11 significant bits: adding and taking away 2^13 times the value rounds there. Range is left alone.
float to_float16(float value) {
  volatile float shifted = value * 8193.0F;
  volatile float rest = value - shifted;
  return shifted + rest;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      if (t.dgamma.present()) t.dgamma[at] = to_float16(t.dgamma[at] + t.dy[at] * xhat_at(t, at, s));
      if (t.dbeta.present()) t.dbeta[at] = to_float16(t.dbeta[at] + t.dy[at]);
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_in_float16 = backward(NG_LAYER_NORM, "broken/dgamma_in_float16", run);

}  // namespace normgate::broken
