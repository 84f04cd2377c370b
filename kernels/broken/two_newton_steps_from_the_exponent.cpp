// rejected by: accuracy; looks like: approximate reciprocal root
// A reciprocal root from the exponent's bits with two of Newton's steps: 17 bits where float32 has 24.
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
    const float v = variance + eps;
    float rstd = std::bit_cast<float>(0x5F3759DFU - (std::bit_cast<std::uint32_t>(v) >> 1U));
    for (int step = 0; step < 2; ++step) rstd = rstd * (1.5F - 0.5F * v * rstd * rstd);
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

extern const ng_kernel two_newton_steps_from_the_exponent =
    training(NG_GROUP_NORM, "broken/two_newton_steps_from_the_exponent", run);

}  // namespace normgate::broken
