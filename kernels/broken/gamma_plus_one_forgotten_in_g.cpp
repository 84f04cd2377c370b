// rejected by: finite_differences; looks like: gamma is w; declared 1+w
// The forward multiplies by 1+w; the backward takes g = dy w.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.gamma_offset = NG_GAMMA_PLUS_ONE;
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

extern const ng_kernel gamma_plus_one_forgotten_in_g =
    with_convention(backward(NG_RMS_NORM, "broken/gamma_plus_one_forgotten_in_g", run), convention);

}  // namespace normgate::broken
