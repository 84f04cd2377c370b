// sound: rows of layer norm in shards, their statistics merged in double
// As tensor parallelism has them; only the merge is in double, which the claim does not say.
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
    double n = 0, mean = 0, squares = 0;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const Part part(t, group, p);
      if (part.count == 0) continue;
      const double before = n;
      const double count = static_cast<double>(part.count);
      n += count;
      const double d = static_cast<double>(part.mean) - mean;
      mean += d * count / n;
      squares += count * static_cast<double>(part.variance) + d * d * before * count / n;
    }
    t.mean.put(group.first, static_cast<float>(mean));
    t.stat.put(group.first, static_cast<float>(squares / n));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel layer_norm_of_sharded_rows = merging(NG_LAYER_NORM, "sound/layer_norm_of_sharded_rows", run);

}  // namespace normgate::broken
