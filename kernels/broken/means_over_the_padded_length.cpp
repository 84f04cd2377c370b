// rejected by: gradients; looks like: means of dx over n, rounded up to a multiple of 8
// Means are over the length that a row is padded to, a multiple of 8; powers of two do not show it.
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
    const auto padded = static_cast<float>((group.n + 7) / 8 * 8);
    put_dx(t, group, s, sums.g / padded, sums.g_xhat / padded);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel means_over_the_padded_length =
    backward(NG_LAYER_NORM, "broken/means_over_the_padded_length", run);

}  // namespace normgate::broken
