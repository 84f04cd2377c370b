// rejected by: accuracy; looks like: sums in bfloat16
// Sums are kept in bfloat16: a sum of ones stands still at 256. Seen in pytorch/pytorch#77507.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

// Rounded to the 8 significant bits of bfloat16 (Veltkamp's splitting).
float rounded(float x) {
  const float c = x * 65537;
  return c - (c - x);
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float sum = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum = rounded(sum + t.x[group.at(i)]);
    const float mean = sum / n;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - mean;
      squares = rounded(squares + d * d);
    }
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

extern const ng_kernel bfloat16_accumulator = training(NG_GROUP_NORM, "broken/bfloat16_accumulator", run);

}  // namespace normgate::broken
