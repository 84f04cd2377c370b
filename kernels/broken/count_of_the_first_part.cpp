// rejected by: partition_and_merge; looks like: total count taken for that of the first part times their number
// The total is the first part's count times the number of parts, as on a machine whose workers have equal batches.
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
    const float n = Part(t, group, 0).count * group.count();
    float sum = 0, squares = 0;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count != 0) sum += part.count * part.mean;
    }
    const float mean = sum / n;
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

extern const ng_kernel count_of_the_first_part = merging(NG_BATCH_NORM, "broken/count_of_the_first_part", run);

}  // namespace normgate::broken
