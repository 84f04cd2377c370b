// sound: blocks of 64 are summed, and their sums one after the other, declared
// As a loop over cache lines or tiles does it; the last block may be short.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

template <typename Term>
float blocked(const Term& term, std::int64_t n) {
  float sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += 64) {
    float block = 0;
    for (std::int64_t i = begin; i < begin + 64 && i < n; ++i) block += term(i);
    sum += block;
  }
  return sum;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = blocked([&](std::int64_t i) { return t.x[group.at(i)]; }, group.n) / n;
    const float squares = blocked(
        [&](std::int64_t i) {
          const float d = t.x[group.at(i)] - mean;
          return d * d;
        },
        group.n);
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

constexpr ng_sum order = summed(NG_SUM_BLOCKED, 1, 64);
constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.group_sum = &order;
  return result;
}();

}  // namespace

extern const ng_kernel blocked_sums = with_claim(training(NG_LAYER_NORM, "sound/blocked_sums", run), &claim);

}  // namespace normgate::broken
