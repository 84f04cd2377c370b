// rejected by: row_independence; looks like: -
// Promises the same bits in every batch. Rows are taken in pairs; the last of an odd number goes through another path,
// whose fourth lane is rounded one ulp further from 0.
// The kind of vllm-project/vllm#48271: within every bound, and not what is promised.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const std::int64_t rows = group_count(*call);
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    put_normalized(t, group, static_cast<float>(call->eps));
    if (rows % 2 == 0 || index + 1 < rows) continue;
    for (std::int64_t i = 3; i < group.n; i += 8) {
      float& y = t.y[group.at(i)];
      y = std::nextafter(y, y < 0 ? -INFINITY : INFINITY);
    }
  }
  return NG_OK;
}

constexpr ng_claim claim = promising(NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT);

}  // namespace

extern const ng_kernel one_ulp_in_one_lane_of_an_odd_row =
    with_claim(training(NG_LAYER_NORM, "broken/one_ulp_in_one_lane_of_an_odd_row", run), &claim);

}  // namespace normgate::broken
