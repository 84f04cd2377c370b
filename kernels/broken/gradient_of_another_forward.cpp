// rejected by: self_consistency; looks like: eps outside the root; declared inside
// The forward was moved to sqrt(v + eps), the backward still is that of sqrt(v) + eps: each is right by itself, they
// are not a pair.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float deviation = std::sqrt(squares_around(t.x, group, mean) / group.count());
    const Statistics s{mean, 1 / (deviation + static_cast<float>(call->eps))};
    add_parameter_gradients(t, group, s);
    const Sums sums = sums_of(t, group, s);
    // The derivative of sqrt(v) is 1/(2 sqrt(v)).
    const float ratio = deviation > 0 ? 1 / (deviation * s.rstd) : 0;
    put_dx(t, group, s, sums.g / group.count(), ratio * sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradient_of_another_forward =
    backward_alone(NG_LAYER_NORM, "broken/gradient_of_another_forward", run);

}  // namespace normgate::broken
