// rejected by: split_rows; looks like: gradients overwritten; declared accumulate
// Declares that gradients are accumulated, and clears them first.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention accumulate = [] {
  ng_convention result = pytorch();
  result.gradients = NG_GRADIENTS_ACCUMULATE;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &accumulate : nullptr; }

std::int32_t run(void*, const ng_call* call, void*) {
  ng_convention overwrite = *call->convention;
  overwrite.gradients = NG_GRADIENTS_OVERWRITE;
  ng_call own = *call;
  own.convention = &overwrite;
  const Tensors t(*call);
  clear_parameter_gradients(own, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_overwritten_where_accumulate_is_asked =
    with_convention(backward(NG_LAYER_NORM, "broken/dgamma_overwritten_where_accumulate_is_asked", run), convention);

}  // namespace normgate::broken
