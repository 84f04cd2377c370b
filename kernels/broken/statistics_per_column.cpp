// rejected by: accuracy; looks like: statistics over other axes
// Mean and variance run down the rows, per column: the wrong axis, and right for no shape that a layer norm meets. Seen
// in Xilinx/mlir-aie PR#3419.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const std::int64_t rows = call->extent[NG_N];
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      At other = at;
      float sum = 0;
      for (other[NG_N] = 0; other[NG_N] < rows; ++other[NG_N]) sum += t.x[other];
      const float mean = sum / static_cast<float>(rows);
      float squares = 0;
      for (other[NG_N] = 0; other[NG_N] < rows; ++other[NG_N]) squares += (t.x[other] - mean) * (t.x[other] - mean);
      const float rstd = 1 / std::sqrt(squares / static_cast<float>(rows) + eps);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    const float mean = sum_of(t.x, group) / group.count();
    const float variance = squares_around(t.x, group, mean) / group.count();
    t.mean.put(group.first, mean);
    t.stat.put(group.first, 1 / std::sqrt(variance + eps));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel statistics_per_column = training(NG_LAYER_NORM, "broken/statistics_per_column", run);

}  // namespace normgate::broken
