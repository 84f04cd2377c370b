// rejected by: gradients; looks like: x and dy swapped
// Takes (x, dy) for (dy, x): a reference and its tests once agreed on the wrong order (ROCm/rocm-libraries#7676).
#include <utility>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  std::swap(t.dy, t.x);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dy_and_x_swapped = backward(NG_BATCH_NORM, "broken/dy_and_x_swapped", run);

}  // namespace normgate::broken
