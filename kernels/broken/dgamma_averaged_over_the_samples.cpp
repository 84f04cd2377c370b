// rejected by: split_rows; looks like: gradients of the parameters averaged over N
// Gradients of the parameters are averaged over the samples, as a reduction over processes once was: two halves do not
// add up to the whole (NVIDIA/Megatron-LM#1446).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    const auto samples = static_cast<float>(call->extent[NG_N]);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * xhat_at(t, at, s) / samples;
      if (t.dbeta.present()) t.dbeta[at] += t.dy[at] / samples;
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_averaged_over_the_samples =
    backward(NG_LAYER_NORM, "broken/dgamma_averaged_over_the_samples", run);

}  // namespace normgate::broken
