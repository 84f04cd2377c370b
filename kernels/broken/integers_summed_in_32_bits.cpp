// rejected by: shift_invariance; looks like: -
// Groups of integers below 2^24, as dequantized data are, have their sum taken in 32 bits, which wraps once a bias as
// large as these meets some hundred elements.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float mean_of(const View& x, const Group& group) {
  std::uint32_t sum = 0;
  for (std::int64_t i = 0; i < group.n; ++i) {
    const float value = x[group.at(i)];
    if (!(std::fabs(value) < 0x1p24F) || value != std::floor(value)) return sum_of(x, group) / group.count();
    sum += static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
  }
  return static_cast<float>(static_cast<std::int32_t>(sum)) / group.count();
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = mean_of(t.x, group);
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / n + eps);
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

extern const ng_kernel integers_summed_in_32_bits = training(NG_BATCH_NORM, "broken/integers_summed_in_32_bits", run);

}  // namespace normgate::broken
