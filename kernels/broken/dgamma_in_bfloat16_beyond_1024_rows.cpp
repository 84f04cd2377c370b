// rejected by: gradients; looks like: gradients of the parameters in bfloat16
// From 1024 rows on they are reduced in blocks, and only that path keeps its totals in bfloat16
// (linkedin/Liger-Kernel PR#950).
#include <cstring>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float rounded(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF0000U;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
    if (group_count(*call) < 1024) continue;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      if (t.dgamma.present()) t.dgamma[at] = rounded(t.dgamma[at]);
      if (t.dbeta.present()) t.dbeta[at] = rounded(t.dbeta[at]);
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_in_bfloat16_beyond_1024_rows =
    backward(NG_RMS_NORM, "broken/dgamma_in_bfloat16_beyond_1024_rows", run);

}  // namespace normgate::broken
