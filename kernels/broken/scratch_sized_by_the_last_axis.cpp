// rejected by: extents; looks like: wrote past the end of the workspace
// Above 65536 rows dgamma is reduced through a scratch that has the last of the normalized axes for its size.
// pytorch/pytorch PR#192016. Wrong only with two normalized axes and more than 65536 rows.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr std::int64_t many = 65536;

std::int32_t workspace_size(void*, const ng_call* call, std::size_t* bytes, std::size_t* alignment) {
  *bytes = static_cast<std::size_t>(call->extent[NG_K]) * sizeof(float);
  *alignment = alignof(float);
  return NG_OK;
}

std::int32_t run(void*, const ng_call* call, void* workspace) {
  const Tensors t(*call);
  float* const scratch = static_cast<float*>(workspace);
  const std::int64_t rows = group_count(*call);
  clear_parameter_gradients(*call, t);
  if (rows > many)
    for (std::int64_t i = 0; i < call->extent[NG_G] * call->extent[NG_K]; ++i) scratch[i] = 0;
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel scratch_sized_by_the_last_axis = [] {
  ng_kernel kernel = backward(NG_LAYER_NORM, "broken/scratch_sized_by_the_last_axis", run);
  kernel.workspace = workspace_size;
  return kernel;
}();

}  // namespace normgate::broken
