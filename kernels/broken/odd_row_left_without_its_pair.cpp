// rejected by: accuracy; looks like: statistics of the neighbouring group
// Right for even numbers of rows: rows are normalized in pairs, and the last one of an odd number gets the statistics
// of the one before.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const std::int64_t count = group_count(*call);
    const Group source(*call, count % 2 == 1 && count > 1 && index == count - 1 ? index - 1 : index);
    const float mean = sum_of(t.x, source) / n;
    const float variance = squares_around(t.x, source, mean) / n;
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

}  // namespace

extern const ng_kernel odd_row_left_without_its_pair =
    training(NG_LAYER_NORM, "broken/odd_row_left_without_its_pair", run);

}  // namespace normgate::broken
