// rejected by: dot_product; looks like: mean term of dx missing
// Rows of up to 8200 columns stay in registers, and from 16384 on they are read three times. Between them is a path
// of shared memory, which forgets mean(g), as fast paths for one width do (PaddlePaddle/Paddle PR#74149).
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
    const bool middle = group.n > 8200 && group.n < 16384;
    put_dx(t, group, s, middle ? 0 : sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel mean_term_lost_on_the_middle_path =
    backward(NG_LAYER_NORM, "broken/mean_term_lost_on_the_middle_path", run);

}  // namespace normgate::broken
