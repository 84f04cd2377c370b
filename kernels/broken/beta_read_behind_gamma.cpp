// rejected by: memory; looks like: read past the end of gamma
// gamma and beta are taken for one buffer of twice the size, as an older interface had it.
// flashlight/flashlight#271.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  if (t.gamma.present() && t.beta.present()) t.beta.data = t.gamma.data + call->extent[NG_G] * call->extent[NG_K];
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel beta_read_behind_gamma = [] {
  ng_kernel kernel = training(NG_BATCH_NORM, "broken/beta_read_behind_gamma", run);
  kernel.supported_roles[NG_FORWARD_TRAINING] &= ~running_roles;
  return kernel;
}();

}  // namespace normgate::broken
