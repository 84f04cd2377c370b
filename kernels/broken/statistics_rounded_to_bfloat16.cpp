// rejected by: gradients; looks like: handed statistics rounded to bfloat16
// The handed mean and deviation are rounded to the type of the tensors before they are used.
// (pytorch/pytorch PR#140259)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float to_bfloat16(float value) {
  volatile float shifted = value * 65537.0F;
  volatile float rest = value - shifted;
  return shifted + rest;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s{to_bfloat16(t.mean[group.first]), to_bfloat16(t.stat[group.first])};
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel statistics_rounded_to_bfloat16 =
    backward(NG_LAYER_NORM, "broken/statistics_rounded_to_bfloat16", run);

}  // namespace normgate::broken
