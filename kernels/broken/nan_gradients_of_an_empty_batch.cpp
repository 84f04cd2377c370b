// rejected by: gradients; looks like: -
// dgamma and dbeta are sums times n/n, which is NaN where no row came in.
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
    put_training_dx(*call, t, group, s);
  }
  const std::int64_t rows = call->extent[NG_N] * call->extent[NG_S];
  const float whole = static_cast<float>(rows) / static_cast<float>(rows);
  for (std::int64_t g = 0; g < call->extent[NG_G]; ++g)
    for (std::int64_t k = 0; k < call->extent[NG_K]; ++k) {
      const At at{0, g, k, 0};
      if (t.dgamma.present()) t.dgamma[at] *= whole;
      if (t.dbeta.present()) t.dbeta[at] *= whole;
    }
  return NG_OK;
}

}  // namespace

extern const ng_kernel nan_gradients_of_an_empty_batch =
    backward(NG_BATCH_NORM, "broken/nan_gradients_of_an_empty_batch", run);

}  // namespace normgate::broken
