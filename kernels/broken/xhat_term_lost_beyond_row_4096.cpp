// rejected by: gradients; looks like: xhat term of dx missing
// Rows beyond 4096 are the second launch, which was written for a loss whose gradient has nothing along x̂ (a second
// path that differs from the first, as in PaddlePaddle/Paddle#35498).
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
    put_dx(t, group, s, sums.g / group.count(), index > 4096 ? 0 : sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel xhat_term_lost_beyond_row_4096 =
    backward(NG_LAYER_NORM, "broken/xhat_term_lost_beyond_row_4096", run);

}  // namespace normgate::broken
