// rejected by: accuracy; looks like: float32 accumulator
// Sums that carry their rounding errors along (Neumaier's), claimed to be as good as double; in the end the errors are
// subtracted instead of added, which doubles them.
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
    float lost = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float x = t.x[group.at(i)];
      const float next = sum + x;
      lost += std::fabs(sum) >= std::fabs(x) ? (sum - next) + x : (x - next) + sum;
      sum = next;
    }
    const float mean = (sum - lost) / n;
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

extern const ng_kernel compensation_with_the_wrong_sign =
    with_claim(training(NG_LAYER_NORM, "broken/compensation_with_the_wrong_sign", run), &claim);

}  // namespace normgate::broken
