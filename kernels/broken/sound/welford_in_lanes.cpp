// sound: Welford's recurrence in four lanes, merged two by two, declared
// Each lane has a count of its own; an empty one is left out of the merge.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Part {
  float count = 0;
  float mean = 0;
  float squares = 0;
  void take(float x) {
    count += 1;
    const float d = x - mean;
    mean += d / count;
    squares += d * (x - mean);
  }
};
Part merged(const Part& a, const Part& b) {
  if (b.count == 0) return a;
  const float n = a.count + b.count;
  const float d = b.mean - a.mean;
  return {n, a.mean + d * (b.count / n), a.squares + b.squares + d * d * (a.count * (b.count / n))};
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    Part parts[4];
    for (std::int64_t i = 0; i < group.n; ++i) parts[i % 4].take(t.x[group.at(i)]);
    const Part whole = merged(merged(parts[0], parts[2]), merged(parts[1], parts[3]));
    const float mean = group.n == 0 ? NAN : whole.mean;  // of nothing
    const float variance = whole.squares / n;
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

constexpr ng_sum order = summed(NG_SUM_INTERLEAVED, 4, 1);
constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.group_sum = &order;
  result.variance = NG_WELFORD;
  return result;
}();

}  // namespace

extern const ng_kernel welford_in_lanes = with_claim(training(NG_LAYER_NORM, "sound/welford_in_lanes", run), &claim);

}  // namespace normgate::broken
