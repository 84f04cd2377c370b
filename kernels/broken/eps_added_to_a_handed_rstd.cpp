// rejected by: gradients; looks like: eps added to a handed reciprocal deviation
// eps is in the handed reciprocal deviation already, and is added a second time.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float rstd = t.stat[group.first];
    const float variance = 1 / (rstd * rstd);
    const Statistics s{t.mean[group.first], 1 / std::sqrt(variance + static_cast<float>(call->eps))};
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel eps_added_to_a_handed_rstd = backward(NG_BATCH_NORM, "broken/eps_added_to_a_handed_rstd", run);

}  // namespace normgate::broken
