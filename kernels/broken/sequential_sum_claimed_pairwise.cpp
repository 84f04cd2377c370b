// rejected by: epsilon; looks like: -
// Claims sums over a binary tree of blocks of 16 and adds one after the other: the error grows with the length, not
// with its logarithm. Seen in pytorch/pytorch#141541.
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
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_sum pairwise = summed(NG_SUM_PAIRWISE, 1, 16);
constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.group_sum = &pairwise;
  return result;
}();

}  // namespace

extern const ng_kernel sequential_sum_claimed_pairwise =
    with_claim(training(NG_LAYER_NORM, "broken/sequential_sum_claimed_pairwise", run), &claim);

}  // namespace normgate::broken
