// rejected by: memory; looks like: -
// Partial sums of dgamma and dbeta are kept for two rows, and both are added up also where there is one row only.
// (Dao-AILab/flash-attention#781)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t workspace_bytes(void*, const ng_call* call, std::size_t* bytes, std::size_t* alignment) {
  *bytes = static_cast<std::size_t>(call->extent[NG_G] * call->extent[NG_K]) * 4 * sizeof(float);
  *alignment = 0;
  return NG_OK;
}

std::int32_t run(void*, const ng_call* call, void* workspace) {
  const Tensors t(*call);
  auto* partial = static_cast<float*>(workspace);
  const std::int64_t rows = group_count(*call);
  const std::int64_t columns = call->extent[NG_G] * call->extent[NG_K];
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      float* total = partial + ((index % 2) * columns + i) * 2;
      total[0] = (index < 2 ? 0 : total[0]) + t.dy[at] * xhat_at(t, at, s);
      total[1] = (index < 2 ? 0 : total[1]) + t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  for (std::int64_t i = 0; rows > 0 && i < columns; ++i) {
    const At at = Group(*call, 0).at(i);
    t.dgamma.put(at, partial[2 * i] + partial[2 * (columns + i)]);
    t.dbeta.put(at, partial[2 * i + 1] + partial[2 * (columns + i) + 1]);
  }
  if (rows == 0) clear_parameter_gradients(*call, t);
  return NG_OK;
}

}  // namespace

extern const ng_kernel partial_sums_of_two_rows = [] {
  ng_kernel kernel = backward(NG_RMS_NORM, "broken/partial_sums_of_two_rows", run);
  kernel.workspace = workspace_bytes;
  return kernel;
}();

}  // namespace normgate::broken
