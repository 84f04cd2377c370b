// rejected by: memory; looks like: -
// A batch of one row has a path of its own, which looks up mean and deviation by column (PaddlePaddle/Paddle#35498).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    if (group_count(*call) > 1) {
      put_training_dx(*call, t, group, s);
      continue;
    }
    const Sums sums = sums_of(t, group, s);
    const float n = group.count();
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const Statistics column{t.mean.data[i], t.stat.data[i]};
      t.dx[at] = column.rstd * (g_at(t, at) - sums.g / n - xhat_at(t, at, column) * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel single_row_indexes_mean_by_column =
    backward(NG_LAYER_NORM, "broken/single_row_indexes_mean_by_column", run);

}  // namespace normgate::broken
