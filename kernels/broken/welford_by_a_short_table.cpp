// rejected by: accuracy; looks like: -
// Wrong beyond 1024 elements only: Welford's recurrence takes 1/count from a table, and the last entry serves what lies
// behind it. Such reciprocals were worse than two passes in tenstorrent/tt-metal#30538.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float mean = 0;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - mean;
      mean += d / static_cast<float>(i < 1024 ? i + 1 : 1024);
      squares += d * (t.x[group.at(i)] - mean);
    }
    if (group.n == 0) mean = NAN;  // of nothing
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

constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.variance = NG_WELFORD;
  return result;
}();

}  // namespace

extern const ng_kernel welford_by_a_short_table =
    with_claim(training(NG_LAYER_NORM, "broken/welford_by_a_short_table", run), &claim);

}  // namespace normgate::broken
