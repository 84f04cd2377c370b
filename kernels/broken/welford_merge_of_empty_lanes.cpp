// rejected by: accuracy; looks like: -
// Four lanes of Welford's recurrence are merged pairwise; two lanes that have seen nothing give 0/0, so rows of one and
// two values become NaN. Seen in tenstorrent/tt-metal#43935.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Moments {
  float count = 0;
  float mean = 0;
  float squares = 0;
};

Moments merged(const Moments& a, const Moments& b) {
  const float count = a.count + b.count;
  const float d = b.mean - a.mean;
  const float share = b.count / count;
  return {count, a.mean + d * share, a.squares + b.squares + d * d * a.count * share};
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    Moments lane[4];
    for (std::int64_t i = 0; i < group.n; ++i) {
      Moments& m = lane[i % 4];
      const float x = t.x[group.at(i)];
      m.count += 1;
      const float d = x - m.mean;
      m.mean += d / m.count;
      m.squares += d * (x - m.mean);
    }
    const Moments all = merged(merged(lane[0], lane[1]), merged(lane[2], lane[3]));
    const float mean = all.mean;
    const float rstd = 1 / std::sqrt(all.squares / all.count + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_sum four_lanes = summed(NG_SUM_INTERLEAVED, 4, 0);
constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.variance = NG_WELFORD;
  result.group_sum = &four_lanes;
  return result;
}();

}  // namespace

extern const ng_kernel welford_merge_of_empty_lanes =
    with_claim(training(NG_LAYER_NORM, "broken/welford_merge_of_empty_lanes", run), &claim);

}  // namespace normgate::broken
