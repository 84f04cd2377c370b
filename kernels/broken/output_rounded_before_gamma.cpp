// rejected by: accuracy; looks like: -
// The normalized value is rounded to bfloat16 before gamma multiplies it. Seen in vllm-project/vllm#42325.
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
      t.y[at] = rounded((t.x[at] - mean) * rstd) * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel output_rounded_before_gamma = training(NG_LAYER_NORM, "broken/output_rounded_before_gamma", run);

}  // namespace normgate::broken
