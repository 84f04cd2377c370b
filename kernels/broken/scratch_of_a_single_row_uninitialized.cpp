// rejected by: gradients; looks like: -
// Partial sums of dgamma lie in a workspace; with a single row the pass that fills it is skipped, and what was there is
// added up. Dao-AILab/flash-attention#781.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t workspace_size(void*, const ng_call* call, std::size_t* bytes, std::size_t* alignment) {
  *bytes = static_cast<std::size_t>(call->extent[NG_G] * call->extent[NG_K]) * sizeof(float);
  *alignment = alignof(float);
  return NG_OK;
}

std::int32_t run(void*, const ng_call* call, void* workspace) {
  const Tensors t(*call);
  float* const partial = static_cast<float*>(workspace);
  const std::int64_t rows = group_count(*call);
  const std::int64_t columns = call->extent[NG_G] * call->extent[NG_K];
  clear_parameter_gradients(*call, t);
  if (rows > 1)
    for (std::int64_t i = 0; i < columns; ++i) partial[i] = 0;
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  if (rows > 0 && t.dgamma.present())
    for (std::int64_t i = 0; i < columns; ++i) t.dgamma[Group(*call, 0).at(i)] += partial[i];
  return NG_OK;
}

}  // namespace

extern const ng_kernel scratch_of_a_single_row_uninitialized = [] {
  ng_kernel kernel = backward(NG_RMS_NORM, "broken/scratch_of_a_single_row_uninitialized", run);
  kernel.workspace = workspace_size;
  return kernel;
}();

}  // namespace normgate::broken
