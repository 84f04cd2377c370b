// rejected by: special_gradients; looks like: dbeta depends on x
// Lanes are masked by a product with x - x, and a NaN or an infinity in x reaches dbeta, which does not depend on x.
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
      const float nothing = t.x[at] - t.x[at];
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * xhat_at(t, at, s);
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at] + nothing;
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dbeta_sees_x = backward(NG_BATCH_NORM, "broken/dbeta_sees_x", run);

}  // namespace normgate::broken
