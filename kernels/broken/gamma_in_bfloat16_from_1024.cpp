// rejected by: accuracy; looks like: gamma rounded to bfloat16
// Wrong from 1024 elements on only: the path for long rows keeps gamma in a cache of 16-bit values.
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
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float gamma = t.gamma.value(at, 1);
      t.y[at] = (t.x[at] - mean) * rstd * (group.n < 1024 ? gamma : rounded(gamma)) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_in_bfloat16_from_1024 = training(NG_LAYER_NORM, "broken/gamma_in_bfloat16_from_1024", run);

}  // namespace normgate::broken
