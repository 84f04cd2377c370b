// rejected by: layouts; looks like: misaligned access
// Aligned vector loads of 16 bytes on rows that are promised the alignment of a float only.
#include <xmmintrin.h>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    __m128 lanes = _mm_setzero_ps();
    std::int64_t i = 0;
    if (call->extent[NG_S] == 1) {
      for (; i + 4 <= group.n; i += 4) lanes = _mm_add_ps(lanes, _mm_load_ps(&t.x[group.at(i)]));
    }
    float sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    for (; i < group.n; ++i) sum += t.x[group.at(i)];
    const float mean = sum / n;
    const float squares = squares_around(t.x, group, mean);
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

extern const ng_kernel misaligned = training(NG_LAYER_NORM, "broken/misaligned", run);

}  // namespace normgate::broken
