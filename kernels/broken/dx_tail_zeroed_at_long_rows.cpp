// rejected by: gradients; looks like: dx zero from an element on
// The last pass counts blocks of 16 columns in a byte, in which 255 marks the end: what lies behind column 4080 is
// zero.
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
    for (std::int64_t i = 255 * 16; i < group.n; ++i) t.dx[group.at(i)] = 0;
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dx_tail_zeroed_at_long_rows = backward(NG_LAYER_NORM, "broken/dx_tail_zeroed_at_long_rows", run);

}  // namespace normgate::broken
