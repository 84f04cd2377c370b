// rejected by: partition_and_merge; looks like: parts merged without the difference of their means
// The variance within the parts only: that their means differ is left out.
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
    const Merged merged = merge_at_once(t, group);
    float squares = 0;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count != 0) squares += part.count * part.variance;
    }
    t.mean.put(group.first, merged.mean);
    t.stat.put(group.first, squares / merged.n);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel variances_averaged_without_the_means =
    merging(NG_BATCH_NORM, "broken/variances_averaged_without_the_means", run);

}  // namespace normgate::broken
