// rejected by: gradients; looks like: dgamma with 1/D by column instead of by row
// In blocks of eight rows the factor of a row is broadcast along the columns in dgamma: right for one row, or rows of
// one deviation (BobMcDear/attorch#17).
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    const std::int64_t block = index / 8 * 8;
    const std::int64_t rows = std::min<std::int64_t>(8, group_count(*call) - block);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float rstd = t.stat[Group(*call, block + i % rows).first];
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * (t.x[at] * rstd);
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel rstd_by_column_in_dgamma = backward(NG_RMS_NORM, "broken/rstd_by_column_in_dgamma", run);

}  // namespace normgate::broken
