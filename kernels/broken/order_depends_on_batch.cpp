// rejected by: row_independence; looks like: -
// Promises the same bits for a row whatever the batch, and takes as many partial sums as there are rows, up to 8.
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
  const auto eps = static_cast<float>(call->eps);
  const std::int64_t lanes = group_count(*call) < 8 ? group_count(*call) : 8;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = interleaved_sum(t.x, group, lanes) / n;
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

constexpr ng_claim claim = promising(NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT);

}  // namespace

extern const ng_kernel order_depends_on_batch =
    with_claim(training(NG_LAYER_NORM, "broken/order_depends_on_batch", run), &claim);

}  // namespace normgate::broken
