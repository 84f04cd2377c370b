// rejected by: gradients; looks like: means of dx over other axes
// The sums of g run over the rows of a column rather than within the row; square inputs of one value do not show it.
// (flagos-ai/FlagGems PR#59)
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  const std::int64_t rows = group_count(*call);
  std::vector<Sums> columns(static_cast<std::size_t>(call->extent[NG_G] * call->extent[NG_K]));
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      Sums& sums = columns[static_cast<std::size_t>(i)];
      sums.g += g_at(t, at);
      sums.g_xhat += g_at(t, at) * xhat_at(t, at, s);
    }
  }
  const auto n = static_cast<float>(rows);
  for (std::int64_t index = 0; index < rows; ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const Sums& sums = columns[static_cast<std::size_t>(i)];
      t.dx[at] = s.rstd * (g_at(t, at) - sums.g / n - xhat_at(t, at, s) * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel sums_per_column = backward(NG_LAYER_NORM, "broken/sums_per_column", run);

}  // namespace normgate::broken
