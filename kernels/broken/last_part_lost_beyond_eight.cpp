// rejected by: partition_and_merge; looks like: last part lost
// Parts are taken eight at a time and a remainder of one is forgotten: wrong only where their number is 1 modulo 8,
// from 9 on.
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
    std::int64_t parts = group.n;
    if (parts > 8 && parts % 8 == 1) --parts;
    Merged merged;
    for (std::int64_t p = 0; p < parts; ++p) merged.add(Part(t, group, p));
    put_merged(t, group, merged);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel last_part_lost_beyond_eight = merging(NG_BATCH_NORM, "broken/last_part_lost_beyond_eight", run);

}  // namespace normgate::broken
