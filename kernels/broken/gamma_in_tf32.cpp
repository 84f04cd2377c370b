// rejected by: accuracy; looks like: gamma rounded to float16
// gamma goes through a multiplier of 11 significant bits, as matrix units have.
#include <bit>

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
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const auto bits = std::bit_cast<std::uint32_t>(t.gamma.value(at, 1));
      const auto gamma = std::bit_cast<float>((bits + 0x0FFFU + ((bits >> 13U) & 1U)) & 0xFFFFE000U);
      t.y[at] = (t.x[at] - mean) * rstd * gamma + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_in_tf32 = training(NG_LAYER_NORM, "broken/gamma_in_tf32", run);

}  // namespace normgate::broken
