// rejected by: gradients; looks like: elements left out of the sums of dx
// The sums over g are of whole vectors of 8; dx is written for all elements.
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
    Sums sums;
    const std::int64_t whole = group.n < 8 ? group.n : group.n / 8 * 8;
    for (std::int64_t i = 0; i < whole; ++i) {
      const At at = group.at(i);
      const float g = g_at(t, at);
      sums.g += g;
      sums.g_xhat += g * xhat_at(t, at, s);
    }
    put_dx(t, group, s, sums.g / group.count(), sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel tail_left_out_of_the_sums = backward(NG_GROUP_NORM, "broken/tail_left_out_of_the_sums", run);

}  // namespace normgate::broken
