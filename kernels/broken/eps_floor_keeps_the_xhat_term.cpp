// rejected by: gradients; looks like: eps inside the root; declared a floor
// Below the floor the deviation is a constant, and the last term is 0; here it stays.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.eps_placement = NG_EPS_FLOOR;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

std::int32_t run(void*, const ng_call* call, void*) {
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

}  // namespace

extern const ng_kernel eps_floor_keeps_the_xhat_term =
    with_convention(backward(NG_INSTANCE_NORM, "broken/eps_floor_keeps_the_xhat_term", run), convention);

}  // namespace normgate::broken
