// rejected by: double_backward; looks like: -
// ddx is projected onto nothing: its mean over the group stays in it.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_second_dgamma(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    SecondSums r = second_sums(*call, t, group);
    r.mean_u = 0;
    put_ddy(t, group, r);
    put_second_dx(t, group, r);
    add_second_dgamma(t, group, r);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel double_backward_without_the_mean =
    double_backward(NG_BATCH_NORM, "broken/double_backward_without_the_mean", run);

}  // namespace normgate::broken
