// rejected by: training_and_inference; looks like: training formula in inference
// Given statistics are constants, but dx loses its means as if they came from x (tensorflow/tensorflow#10857).
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
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel training_formula_in_inference =
    backward_both(NG_BATCH_NORM, "broken/training_formula_in_inference", run);

}  // namespace normgate::broken
