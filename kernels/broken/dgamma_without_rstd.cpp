// rejected by: finite_differences; looks like: dgamma lacks 1/D
// dgamma sums dy (x - mean): right where the variance is 1.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * (t.x[at] - s.mean);
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_without_rstd = backward(NG_BATCH_NORM, "broken/dgamma_without_rstd", run);

}  // namespace normgate::broken
