// sound: blocks of 16 rows have sums of their own in a workspace, declared
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr std::int64_t block = 16;

std::int32_t workspace_bytes(void*, const ng_call* call, std::size_t* bytes, std::size_t* alignment) {
  *bytes = static_cast<std::size_t>(call->extent[NG_G] * call->extent[NG_K]) * 2 * sizeof(float);
  *alignment = 0;
  return NG_OK;
}

constexpr ng_sum blocks = summed(NG_SUM_BLOCKED, 1, block);
constexpr ng_claim claim = [] {
  ng_claim result = short_use;
  result.across_groups = &blocks;
  return result;
}();

std::int32_t run(void*, const ng_call* call, void* workspace) {
  const Tensors t(*call);
  auto* sums = static_cast<float*>(workspace);
  const std::int64_t rows = group_count(*call);
  const std::int64_t columns = call->extent[NG_G] * call->extent[NG_K];
  clear_parameter_gradients(*call, t);
  for (std::int64_t first = 0; first < rows; first += block) {
    for (std::int64_t i = 0; i < 2 * columns; ++i) sums[i] = 0;
    for (std::int64_t index = first; index < rows && index < first + block; ++index) {
      const Group group(*call, index);
      const Statistics s = handed(*call, t, group);
      for (std::int64_t i = 0; i < group.n; ++i) {
        const At at = group.at(i);
        sums[2 * i] += t.dy[at] * xhat_at(t, at, s);
        sums[2 * i + 1] += t.dy[at];
      }
      put_training_dx(*call, t, group, s);
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      const At at = Group(*call, first).at(i);
      if (t.dgamma.present()) t.dgamma[at] += sums[2 * i];
      if (t.dbeta.present()) t.dbeta[at] += sums[2 * i + 1];
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_by_blocks_of_rows = [] {
  ng_kernel kernel = with_claim(backward(NG_LAYER_NORM, "sound/dgamma_by_blocks_of_rows", run), &claim);
  kernel.workspace = workspace_bytes;
  return kernel;
}();

}  // namespace normgate::broken
