// rejected by: row_independence; looks like: -
// Promises the same bits in every batch; from 256 rows on blocks are smaller, and a row has four partial sums instead
// of eight. vllm-project/vllm#48271. Wrong only where the batch crosses 256 rows.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float interleaved_sum(const View& x, const Group& group, std::int64_t lanes) {
  float sum = 0;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    float partial = 0;
    for (std::int64_t i = lane; i < group.n; i += lanes) partial += x[group.at(i)];
    sum += partial;
  }
  return sum;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const std::int64_t lanes = group_count(*call) < 256 ? 8 : 4;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = interleaved_sum(t.x, group, lanes) / group.count();
    const float variance = squares_around(t.x, group, mean) / group.count();
    put_y(t, group, mean, 1 / std::sqrt(variance + static_cast<float>(call->eps)));
  }
  return NG_OK;
}

constexpr ng_claim claim = promising(NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT);

}  // namespace

extern const ng_kernel order_changes_at_256_rows =
    with_claim(training(NG_LAYER_NORM, "broken/order_changes_at_256_rows", run), &claim);

}  // namespace normgate::broken
