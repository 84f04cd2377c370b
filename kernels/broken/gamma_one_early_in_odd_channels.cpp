// rejected by: accuracy; looks like: parameters of the channel before
// Pairs of channels share one read of gamma: those of odd number get the one before.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

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
      At from = at;
      from[NG_K] -= from[NG_K] % 2;
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(from, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_one_early_in_odd_channels =
    training(NG_LAYER_NORM, "broken/gamma_one_early_in_odd_channels", run);

}  // namespace normgate::broken
