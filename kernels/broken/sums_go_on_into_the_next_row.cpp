// rejected by: row_independence; looks like: sums of dx go on from group to group
// The sums are cleared before the first row only: each row takes what the rows before it left.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  Sums sums;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    const Sums own = sums_of(t, group, s);
    sums.g += own.g;
    sums.g_xhat += own.g_xhat;
    put_dx(t, group, s, sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel sums_go_on_into_the_next_row =
    backward(NG_LAYER_NORM, "broken/sums_go_on_into_the_next_row", run);

}  // namespace normgate::broken
