// rejected by: gradient_identities; looks like: mean term of dx subtracted twice
// Once in the sum over g and once more in the output. A tolerance of 0.5 hid it in a released kernel.
// (tenstorrent/tt-metal PR#53215)
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
    put_dx(t, group, s, 2 * sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel mean_of_g_subtracted_twice = backward(NG_LAYER_NORM, "broken/mean_of_g_subtracted_twice", run);

}  // namespace normgate::broken
