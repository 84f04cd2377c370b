// rejected by: partition_and_merge; looks like: mean of the parts' means
// The mean of the means, as if all parts had equally many elements; the variance around it is weighted.
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
    float n = 0, parts = 0, sum = 0, squares = 0;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count == 0) continue;
      n += part.count;
      parts += 1;
      sum += part.mean;
    }
    const float mean = sum / parts;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count == 0) continue;
      const float d = part.mean - mean;
      squares += part.count * (part.variance + d * d);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, squares / n);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel means_of_parts_averaged_unweighted =
    merging(NG_BATCH_NORM, "broken/means_of_parts_averaged_unweighted", run);

}  // namespace normgate::broken
