// rejected by: partition_and_merge; looks like: statistics of an empty part used
// A part without elements has NaN for statistics; with the weight 0 it makes NaN of all the others.
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
      n += part.count;
      sum += part.count * part.mean;
    }
    const float mean = sum / n;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      const float d = part.mean - mean;
      squares += part.count * (part.variance + d * d);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, squares / n);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel empty_part_poisons = merging(NG_BATCH_NORM, "broken/empty_part_poisons", run);

}  // namespace normgate::broken
