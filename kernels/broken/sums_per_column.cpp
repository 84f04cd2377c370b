// rejected by: gradients; looks like: -
// The sums of g run over the rows of a column rather than within the row; square inputs of one value do not show it.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  const std::int64_t rows = group_count(*call);
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At here = group.at(i);
      Sums sums;
      for (std::int64_t other = 0; other < rows; ++other) {
        const Group row(*call, other);
        const At at = row.at(i);
        const float g = g_at(t, at);
        sums.g += g;
        sums.g_xhat += g * xhat_at(t, at, handed(*call, t, row));
      }
      const auto n = static_cast<float>(rows);
      t.dx[here] = s.rstd * (g_at(t, here) - sums.g / n - xhat_at(t, here, s) * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel sums_per_column = backward(NG_LAYER_NORM, "broken/sums_per_column", run);

}  // namespace normgate::broken
