// rejected by: gradients; looks like: saved statistic is the variance; declared the reciprocal standard deviation
// Takes the reciprocal deviation for a variance, and its reciprocal root once more: right where the variance is near
// 1 (flagos-ai/FlagGems#5222).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s{t.mean[group.first], 1 / std::sqrt(t.stat[group.first] + static_cast<float>(call->eps))};
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel root_of_a_handed_rstd = backward(NG_GROUP_NORM, "broken/root_of_a_handed_rstd", run);

}  // namespace normgate::broken
