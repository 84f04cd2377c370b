// rejected by: gradients; looks like: elements left out of the sums of dx
// Maps of 1 by 1 with more than 768 samples take a path that adds up the first 768 only, unless there is one channel.
// (ROCm/MIOpen#1109)
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
    Group summed = group;
    const bool path = call->extent[NG_S] == 1 && call->extent[NG_G] * call->extent[NG_K] > 1;
    if (path && group.n > 768) summed.n = 768;
    const Sums sums = sums_of(t, summed, s);
    put_dx(t, group, s, sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel wrong_above_768_samples_of_one_position =
    backward(NG_BATCH_NORM, "broken/wrong_above_768_samples_of_one_position", run);

}  // namespace normgate::broken
