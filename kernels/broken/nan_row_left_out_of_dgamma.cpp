// rejected by: special_gradients; looks like: NaN left out
// Rows with a NaN are skipped in the sums over rows.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    bool usable = true;
    for (std::int64_t i = 0; i < group.n; ++i) usable = usable && !std::isnan(xhat_at(t, group.at(i), s));
    if (usable) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel nan_row_left_out_of_dgamma = backward(NG_RMS_NORM, "broken/nan_row_left_out_of_dgamma", run);

}  // namespace normgate::broken
