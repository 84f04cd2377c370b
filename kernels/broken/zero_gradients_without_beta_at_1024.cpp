// rejected by: gradients; looks like: all gradients zero
// The fast kernel for 1024 columns is chosen, finds no beta and returns early: all gradients are zero.
// (PaddlePaddle/Paddle PR#74149)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (group.n == 1024 && !t.dbeta.present()) {
      for (std::int64_t i = 0; i < group.n; ++i) t.dx[group.at(i)] = 0;
      continue;
    }
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel zero_gradients_without_beta_at_1024 =
    backward(NG_LAYER_NORM, "broken/zero_gradients_without_beta_at_1024", run);

}  // namespace normgate::broken
