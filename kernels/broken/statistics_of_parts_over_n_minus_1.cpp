// rejected by: saved_statistics; looks like: variance over n-1
// The variance of a part is over n-1, as running statistics have it; merged with weights n_p it is too large, and NaN
// where a part has one element.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    if (call->phase == NG_STATISTICS) {
      const float n = group.count();
      const float mean = sum_of(t.x, group) / n;
      t.mean.put(group.first, mean);
      t.stat.put(group.first, squares_around(t.x, group, mean) / (n - 1));
      continue;
    }
    put_merged(t, group, merge_at_once(t, group));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel statistics_of_parts_over_n_minus_1 =
    merging(NG_BATCH_NORM, "broken/statistics_of_parts_over_n_minus_1", run);

}  // namespace normgate::broken
