// rejected by: memory; looks like: hang
// Vectors of 8 are counted in 8 bits: the count of a row longer than 255 of them begins anew, for ever.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float sum = 0;
    volatile std::uint8_t vector = 0;
    while (vector * 8 < group.n) {
      for (std::int64_t i = vector * 8; i < group.n && i < vector * 8 + 8; ++i) sum += t.x[group.at(i)];
      vector = static_cast<std::uint8_t>(vector + 1);
    }
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

extern const ng_kernel hang = training(NG_LAYER_NORM, "broken/hang", run);

}  // namespace normgate::broken
