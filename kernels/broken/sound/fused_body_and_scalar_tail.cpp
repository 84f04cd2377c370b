// sound: vectors of 8 with fused multiply-adds, and a tail without
// Eight partial sums, declared; the elements behind the last whole vector are added to the first of them. Squares and
// outputs of whole vectors are fused, which every claim allows, so that an element's last bit depends on where the
// vectors end.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float reduced(const float (&lanes)[8]) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const std::int64_t body = group.n / 8 * 8;
    float lanes[8] = {};
    for (std::int64_t i = 0; i < group.n; ++i) lanes[i % 8] += t.x[group.at(i)];
    const float mean = reduced(lanes) / n;
    for (float& lane : lanes) lane = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - mean;
      float& lane = lanes[i % 8];
      lane = i < body ? std::fma(d, d, lane) : lane + d * d;
    }
    const float variance = reduced(lanes) / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float scaled = (t.x[at] - mean) * rstd;
      const float gamma = t.gamma.value(at, 1);
      const float beta = t.beta.value(at, 0);
      t.y[at] = i < body ? std::fma(scaled, gamma, beta) : scaled * gamma + beta;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_sum order = summed(NG_SUM_INTERLEAVED, 8, 1);
constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.group_sum = &order;
  return result;
}();

}  // namespace

extern const ng_kernel fused_body_and_scalar_tail =
    with_claim(training(NG_LAYER_NORM, "sound/fused_body_and_scalar_tail", run), &claim);

}  // namespace normgate::broken
