// sound: is handed the variance, and takes its root
// saved_statistic variance; eps inside.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.saved_statistic = NG_SAVED_VARIANCE;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

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

extern const ng_kernel gradients_of_a_handed_variance =
    with_convention(backward(NG_LAYER_NORM, "sound/gradients_of_a_handed_variance", run), convention);

}  // namespace normgate::broken
