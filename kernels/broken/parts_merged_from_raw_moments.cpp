// rejected by: partition_and_merge; looks like: one-pass variance
// Raw second moments in float32, less the square of the mean: what is left of the variance drowns where the mean is far
// from 0. The claim is one of two passes.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    if (call->phase == NG_STATISTICS) {
      put_part_statistics(t, group);
      continue;
    }
    float n = 0, sum = 0, squares = 0;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count == 0) continue;
      n += part.count;
      sum += part.count * part.mean;
      squares += part.count * (part.variance + part.mean * part.mean);
    }
    const float mean = sum / n;
    t.mean.put(group.first, mean);
    t.stat.put(group.first, squares / n - mean * mean);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel parts_merged_from_raw_moments =
    merging(NG_BATCH_NORM, "broken/parts_merged_from_raw_moments", run);

}  // namespace normgate::broken
