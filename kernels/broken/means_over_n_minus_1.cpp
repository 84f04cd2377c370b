// rejected by: exact_gradients; looks like: means of dx over n-1
// Both means of dx are over n-1. At 16384 columns dx is off by 1/16384 of its smaller terms: no bound of a sequential
// float32 sum sees it, only data on which every sum is exact.
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
    const float n = group.count();
    const Sums sums = sums_of(t, group, s);
    put_dx(t, group, s, sums.g / (n - 1), sums.g_xhat / (n - 1));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel means_over_n_minus_1 = backward(NG_LAYER_NORM, "broken/means_over_n_minus_1", run);

}  // namespace normgate::broken
