// rejected by: double_backward; looks like: -
// 2 a b where differentiating x^ twice gives 3 a b: the response of D to the variance counts once.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_second_dgamma(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    SecondSums r = second_sums(*call, t, group);
    r.curvature = 2;
    put_ddy(t, group, r);
    put_second_dx(t, group, r);
    add_second_dgamma(t, group, r);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel double_backward_with_the_curvature_of_the_first_order =
    double_backward(NG_GROUP_NORM, "broken/double_backward_with_the_curvature_of_the_first_order", run);

}  // namespace normgate::broken
