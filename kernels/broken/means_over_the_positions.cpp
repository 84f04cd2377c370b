// rejected by: gradients; looks like: means of dx over S
// The means of a group are over the positions of one channel: the channels of the group are forgotten.
// (linkedin/Liger-Kernel PR#1376)
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
    const Sums sums = sums_of(t, group, s);
    const auto positions = static_cast<float>(call->extent[NG_S]);
    put_dx(t, group, s, sums.g / positions, sums.g_xhat / positions);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel means_over_the_positions = backward(NG_GROUP_NORM, "broken/means_over_the_positions", run);

}  // namespace normgate::broken
