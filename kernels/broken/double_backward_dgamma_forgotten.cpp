// rejected by: double_backward; looks like: -
// gamma only scales, so it is taken to have no second order: its gradient is left at zero.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_second_dgamma(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const SecondSums r = second_sums(*call, t, group);
    put_ddy(t, group, r);
    put_second_dx(t, group, r);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel double_backward_dgamma_forgotten =
    double_backward(NG_LAYER_NORM, "broken/double_backward_dgamma_forgotten", run);

}  // namespace normgate::broken
