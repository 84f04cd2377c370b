// sound: parts merged from raw second moments, and a one-pass variance declared
// In float32, clamped at 0.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    if (call->phase == NG_STATISTICS) {
      const float n = group.count();
      float squares = 0;
      for (std::int64_t i = 0; i < group.n; ++i) squares += t.x[group.at(i)] * t.x[group.at(i)];
      const float mean = sum_of(t.x, group) / n;
      t.mean.put(group.first, mean);
      t.stat.put(group.first, squares / n - mean * mean);
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
    const float variance = squares / n - mean * mean;
    t.mean.put(group.first, mean);
    t.stat.put(group.first, variance < 0 ? 0 : variance);
  }
  return NG_OK;
}

constexpr ng_claim claim = [] {
  ng_claim result{};
  result.struct_size = sizeof(ng_claim);
  result.variance = NG_ONE_PASS;
  return result;
}();

}  // namespace

extern const ng_kernel raw_moments_of_parts_claimed =
    with_claim(merging(NG_BATCH_NORM, "sound/raw_moments_of_parts_claimed", run), &claim);

}  // namespace normgate::broken
