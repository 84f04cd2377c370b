// rejected by: double_backward; looks like: -
// dx as if 1/D's own second derivative were none: (2 + s D) a b is left out.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_second_dgamma(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    SecondSums r = second_sums(*call, t, group);
    r.curvature = 0;
    put_ddy(t, group, r);
    put_second_dx(t, group, r);
    add_second_dgamma(t, group, r);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel double_backward_without_the_term_of_the_variance =
    double_backward(NG_LAYER_NORM, "broken/double_backward_without_the_term_of_the_variance", run);

}  // namespace normgate::broken
