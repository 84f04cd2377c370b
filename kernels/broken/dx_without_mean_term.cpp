// rejected by: gradient_identities; looks like: mean term of dx missing
// dx = r (g - x̂ mean(g x̂)): the part that comes through the mean is missing. A cotangent without a mean hides it.
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
    put_dx(t, group, s, 0, sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dx_without_mean_term = backward(NG_LAYER_NORM, "broken/dx_without_mean_term", run);

}  // namespace normgate::broken
