// rejected by: extents; looks like: -
// The row that an element of y belongs to is counted in 16 bits where its statistics are looked up: row 65536 has those
// of row 0. Wrong only from the row of that number on; blocks of 65537 rows and more take another path.
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const std::int64_t rows = group_count(*call);
  if (rows > 65537) {
    for (std::int64_t index = 0; index < rows; ++index)
      put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
    return NG_OK;
  }
  std::vector<Statistics> statistics;
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float variance = squares_around(t.x, group, mean) / group.count();
    statistics.push_back({mean, 1 / std::sqrt(variance + static_cast<float>(call->eps))});
  }
  for (std::int64_t index = 0; index < rows; ++index) {
    const Statistics& s = statistics[static_cast<std::uint16_t>(index)];
    put_y(t, Group(*call, index), s.mean, s.rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel row_65536_takes_the_first = training(NG_LAYER_NORM, "broken/row_65536_takes_the_first", run);

}  // namespace normgate::broken
