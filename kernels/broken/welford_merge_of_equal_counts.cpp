// rejected by: accuracy; looks like: unequal parts merged as equal
// Two partial statistics are merged as if both had seen the same number of values; right for lengths that halve into
// whole vectors. Seen in tenstorrent/tt-metal#35291.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const std::int64_t half = group.n / 2 / 8 * 8;
    float means[2];
    float parts[2] = {0, 0};
    for (int part = 0; part < 2; ++part) {
      const std::int64_t begin = part == 0 ? 0 : half;
      const std::int64_t end = part == 0 ? half : group.n;
      float sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += t.x[group.at(i)];
      means[part] = sum / static_cast<float>(end - begin);
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = t.x[group.at(i)] - means[part];
        parts[part] += d * d;
      }
    }
    const float difference = means[1] - means[0];
    const float mean = half > 0 ? (means[0] + means[1]) / 2 : means[1];
    const float squares = half > 0 ? parts[0] + parts[1] + difference * difference * n / 4 : parts[1];
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel welford_merge_of_equal_counts =
    training(NG_LAYER_NORM, "broken/welford_merge_of_equal_counts", run);

}  // namespace normgate::broken
