// sound: partial statistics merged one after the other, by the difference of means
// As Welford merges lanes, in float32; the sums of squares are kept, not the variances.
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
    Merged merged;
    for (std::int64_t p = 0; p < group.n; ++p) merged.add(Part(t, group, p));
    put_merged(t, group, merged);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel parts_merged_in_a_chain = merging(NG_BATCH_NORM, "sound/parts_merged_in_a_chain", run);

}  // namespace normgate::broken
