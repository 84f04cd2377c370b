// rejected by: gradients; looks like: mean not subtracted in dgamma
// In evaluation dgamma is taken for a sum of dy x: the given mean is forgotten.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    const Statistics uncentred{0, s.rstd};
    add_parameter_gradients(t, group, uncentred);
    put_inference_dx(t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel inference_dgamma_from_x = [] {
  ng_kernel kernel = backward_both(NG_INSTANCE_NORM, "broken/inference_dgamma_from_x", run);
  kernel.phases = 1U << NG_BACKWARD_INFERENCE;
  return kernel;
}();

}  // namespace normgate::broken
