// sound: the sums of dx are dbeta and dgamma of the channel
// In batch_norm a channel is a group, so gamma leaves the sums: sum of g = gamma dbeta, sum of g x̂ = gamma dgamma.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    float dgamma = 0;
    float dbeta = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      dgamma += t.dy[at] * xhat_at(t, at, s);
      dbeta += t.dy[at];
    }
    t.dgamma.put(group.first, dgamma);
    t.dbeta.put(group.first, dbeta);
    const float gamma = t.gamma.value(group.first, 1);
    put_dx(t, group, s, dbeta * gamma / group.count(), dgamma * gamma / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_from_those_of_the_parameters =
    backward(NG_BATCH_NORM, "sound/gradients_from_those_of_the_parameters", run);

}  // namespace normgate::broken
