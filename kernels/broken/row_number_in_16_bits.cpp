// rejected by: gradients; looks like: -
// The number of a row has 16 bits: rows from 65536 on are computed once more at the beginning, and their own dx is
// left as it was.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index & 0xFFFF);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel row_number_in_16_bits = backward(NG_LAYER_NORM, "broken/row_number_in_16_bits", run);

}  // namespace normgate::broken
