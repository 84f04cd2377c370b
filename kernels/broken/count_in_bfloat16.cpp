// rejected by: accuracy; looks like: n rounded to bfloat16
// Wrong at most lengths above 256: the number of elements, as the divisor of the variance, goes through a type of 8
// bits.
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
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / rounded(n);
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

extern const ng_kernel count_in_bfloat16 = training(NG_LAYER_NORM, "broken/count_in_bfloat16", run);

}  // namespace normgate::broken
