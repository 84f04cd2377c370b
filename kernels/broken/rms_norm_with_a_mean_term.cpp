// rejected by: finite_differences; looks like: mean term in dx
// The backward of a layer_norm without a mean: rows that are not centred have no mean(g).
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
    put_dx(t, group, s, sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel rms_norm_with_a_mean_term = backward(NG_RMS_NORM, "broken/rms_norm_with_a_mean_term", run);

}  // namespace normgate::broken
