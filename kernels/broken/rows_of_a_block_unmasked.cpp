// rejected by: memory; looks like: read past the end of x
// Rows are read in blocks of four; columns are masked, the rows of the last block are not.
// svg-project/Sparse-VideoGen PR#74. Wrong only where the rows do not divide into blocks.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const std::int64_t rows = group_count(*call);
  const std::int64_t columns = call->extent[NG_G] * call->extent[NG_K];
  if (call->extent[NG_S] != 1 || columns == 0) return NG_OK;
  for (std::int64_t first = 0; first < rows; first += 4) {
    float sums[4] = {};
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t i = 0; i < columns; ++i) {
        const volatile float* element = &t.x.data[(first + row) * columns + i];
        sums[row] += *element;
      }
    for (std::int64_t row = first; row < rows && row < first + 4; ++row) {
      const Group group(*call, row);
      const float mean = sums[row - first] / group.count();
      const float variance = squares_around(t.x, group, mean) / group.count();
      put_y(t, group, mean, 1 / std::sqrt(variance + static_cast<float>(call->eps)));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel rows_of_a_block_unmasked = training(NG_LAYER_NORM, "broken/rows_of_a_block_unmasked", run);

}  // namespace normgate::broken
