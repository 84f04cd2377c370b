// rejected by: jacobian; looks like: all gradients zero
// A batch whose first row has a dy of 0 is taken for one that is masked out: all gradients are 0. A launch that
// returns early on what it finds first (PaddlePaddle/Paddle PR#74149).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  bool masked = group_count(*call) > 1;
  for (std::int64_t i = 0; masked && i < Group(*call, 0).n; ++i) masked = t.dy[Group(*call, 0).at(i)] == 0;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (masked) {
      for (std::int64_t i = 0; i < group.n; ++i) t.dx[group.at(i)] = 0;
      continue;
    }
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel first_row_without_gradient_ends_the_batch =
    backward(NG_LAYER_NORM, "broken/first_row_without_gradient_ends_the_batch", run);

}  // namespace normgate::broken
