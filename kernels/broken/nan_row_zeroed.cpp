// rejected by: special_gradients; looks like: -
// A row whose sums are NaN gets a dx of 0, and the training goes on as if nothing had been.
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
    const Sums sums = sums_of(t, group, s);
    if (std::isnan(sums.g_xhat)) {
      for (std::int64_t i = 0; i < group.n; ++i) t.dx[group.at(i)] = 0;
      continue;
    }
    put_dx(t, group, s, sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel nan_row_zeroed = backward(NG_LAYER_NORM, "broken/nan_row_zeroed", run);

}  // namespace normgate::broken
