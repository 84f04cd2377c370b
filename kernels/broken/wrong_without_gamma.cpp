// rejected by: gradients; looks like: mean term of dx missing
// The path without gamma forgets that mean(g) is still there.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    const Sums sums = sums_of(t, group, s);
    const float mean_of_g = t.gamma.present() ? sums.g / group.count() : 0;
    put_dx(t, group, s, mean_of_g, sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel wrong_without_gamma = backward(NG_LAYER_NORM, "broken/wrong_without_gamma", run);

}  // namespace normgate::broken
