// rejected by: extents; looks like: -
// Rows are launched in blocks of 65536 and a rest; a rest of none takes the last whole block with it.
// Wrong only where the number of rows is a multiple of 65536. pytorch/pytorch#184826 (a limit on rows).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  constexpr std::int64_t block = 65536;
  const Tensors t(*call);
  const std::int64_t rows = group_count(*call);
  const std::int64_t launched = rows > 0 && rows % block == 0 ? rows - block : rows;
  for (std::int64_t index = 0; index < launched; ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel last_block_of_65536_rows_dropped =
    training(NG_LAYER_NORM, "broken/last_block_of_65536_rows_dropped", run);

}  // namespace normgate::broken
