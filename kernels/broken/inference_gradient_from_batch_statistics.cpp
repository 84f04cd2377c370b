// rejected by: batch_mates; looks like: statistics of x in inference
// The backward of an evaluation uses the statistics of the batch, though others were given (torch/nn#615).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float variance = squares_around(t.x, group, mean) / group.count();
    const Statistics s{mean, 1 / std::sqrt(variance + static_cast<float>(call->eps))};
    add_parameter_gradients(t, group, s);
    put_inference_dx(t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel inference_gradient_from_batch_statistics = [] {
  ng_kernel kernel = backward_both(NG_BATCH_NORM, "broken/inference_gradient_from_batch_statistics", run);
  kernel.phases = 1U << NG_BACKWARD_INFERENCE;
  return kernel;
}();

}  // namespace normgate::broken
