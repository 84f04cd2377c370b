// rejected by: jacobian; looks like: -
// The grid of the reduction over rows has 65536 blocks at most: rows behind them have their dx, and are missing in
// dgamma and dbeta (pytorch/pytorch PR#192016 for M > 65536).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (index < 65536) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_loses_rows_beyond_65536 =
    backward(NG_RMS_NORM, "broken/dgamma_loses_rows_beyond_65536", run);

}  // namespace normgate::broken
