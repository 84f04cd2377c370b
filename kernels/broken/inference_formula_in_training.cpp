// rejected by: training_and_inference; looks like: inference formula in training
// dx = g r, as if the statistics did not depend on x.
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
    put_inference_dx(t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel inference_formula_in_training =
    backward_both(NG_BATCH_NORM, "broken/inference_formula_in_training", run);

}  // namespace normgate::broken
