// rejected by: determinism; looks like: -
// Rows are added to dgamma and dbeta in another order in each call, as atomic additions arrive
// (PaddlePaddle/Paddle#56100).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  static std::int64_t calls = 0;
  ++calls;
  const std::int64_t rows = group_count(*call);
  for (std::int64_t arrived = 0; arrived < rows; ++arrived) {
    const Group group(*call, (arrived + calls) % rows);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_in_the_order_of_arrival =
    backward(NG_LAYER_NORM, "broken/dgamma_in_the_order_of_arrival", run);

}  // namespace normgate::broken
