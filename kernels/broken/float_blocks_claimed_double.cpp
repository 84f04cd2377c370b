// rejected by: accuracy; looks like: float32 accumulator
// Claims sums in double and adds blocks of 64 in float32 before a block sum becomes a double.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    double sum = 0;
    for (std::int64_t begin = 0; begin < group.n; begin += 64) {
      float block = 0;
      for (std::int64_t i = begin; i < begin + 64 && i < group.n; ++i) block += t.x[group.at(i)];
      sum += static_cast<double>(block);
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(group.n));
    double squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const auto d = static_cast<double>(t.x[group.at(i)] - mean);
      squares += d * d;
    }
    const auto variance = static_cast<float>(squares / static_cast<double>(group.n));
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

constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.accumulator = NG_TYPE_FLOAT64;
  return result;
}();

}  // namespace

extern const ng_kernel float_blocks_claimed_double =
    with_claim(training(NG_LAYER_NORM, "broken/float_blocks_claimed_double", run), &claim);

}  // namespace normgate::broken
