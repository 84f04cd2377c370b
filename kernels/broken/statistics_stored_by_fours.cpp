// rejected by: memory; looks like: wrote past the end of stat
// The reciprocal deviations of four rows are stored together; the last store is not cut to the rows there are.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const std::int64_t rows = group_count(*call);
  for (std::int64_t index = 0; index < rows; ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  if (!t.stat.present() || call->extent[NG_S] != 1) return NG_OK;
  for (std::int64_t row = rows; row % 4 != 0; ++row) t.stat.data[row] = 0;
  return NG_OK;
}

}  // namespace

extern const ng_kernel statistics_stored_by_fours = training(NG_LAYER_NORM, "broken/statistics_stored_by_fours", run);

}  // namespace normgate::broken
