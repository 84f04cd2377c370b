// rejected by: partition_and_merge; looks like: counts of the parts ignored
// Every part weighs the same (pytorch#22192): with 1 and 3 rows of 0 and 1 the mean is 1/2 instead of 3/4.
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
    float parts = 0, sum = 0, squares = 0;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count == 0) continue;
      parts += 1;
      sum += part.mean;
    }
    const float mean = sum / parts;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count == 0) continue;
      const float d = part.mean - mean;
      squares += part.variance + d * d;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, squares / parts);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel parts_of_equal_counts_assumed =
    merging(NG_BATCH_NORM, "broken/parts_of_equal_counts_assumed", run);

}  // namespace normgate::broken
