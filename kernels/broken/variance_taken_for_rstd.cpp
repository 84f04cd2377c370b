// rejected by: gradients; looks like: saved statistic is the reciprocal standard deviation; declared the variance
// Declares that it is handed the variance, and uses it as the reciprocal deviation (microsoft/onnxruntime PR#8172).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.saved_statistic = NG_SAVED_VARIANCE;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

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

extern const ng_kernel variance_taken_for_rstd =
    with_convention(backward(NG_LAYER_NORM, "broken/variance_taken_for_rstd", run), convention);

}  // namespace normgate::broken
