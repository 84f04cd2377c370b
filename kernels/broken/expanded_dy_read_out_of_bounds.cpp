// rejected by: memory; looks like: read past the end of dy
// The gradient of a sum is one number with stride 0; the kernel reads a whole tensor behind it.
// (flagos-ai/FlagGems PR#1068)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  for (std::size_t a = 0; a < NG_AXES; ++a)
    if (t.dy.stride[a] == 0) t.dy.stride[a] = t.x.stride[a];
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

extern const ng_kernel expanded_dy_read_out_of_bounds = with_layouts(
    backward(NG_RMS_NORM, "broken/expanded_dy_read_out_of_bounds", run), NG_LAYOUT_STRIDED | NG_LAYOUT_MIXED);

}  // namespace normgate::broken
