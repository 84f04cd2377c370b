// rejected by: saved_statistics; looks like: -
// A reciprocal root from a table of 12 bits and one of Newton's steps where float32 takes two: up to six units off, and
// nothing said about it. Most sums hide that; where the variance is 0 nothing else rounds. One step was not enough in
// ohdearquant/lattice PR#232.
#include <bit>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float in_12_bits(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFFF000U); }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float v = variance + eps;
    float rstd = in_12_bits(1 / std::sqrt(v));
    rstd = rstd * (1.5F - 0.5F * v * rstd * rstd);
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

extern const ng_kernel one_newton_step_too_few = training(NG_LAYER_NORM, "broken/one_newton_step_too_few", run);

}  // namespace normgate::broken
