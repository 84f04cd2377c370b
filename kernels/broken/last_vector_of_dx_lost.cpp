// rejected by: memory; looks like: unwritten output
// dx is stored in whole vectors of 8, and what is left of a row is not stored.
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
    const float n = group.count();
    for (std::int64_t i = 0; i < group.n / 8 * 8; ++i) {
      const At at = group.at(i);
      t.dx[at] = s.rstd * (g_at(t, at) - sums.g / n - xhat_at(t, at, s) * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel last_vector_of_dx_lost = backward(NG_LAYER_NORM, "broken/last_vector_of_dx_lost", run);

}  // namespace normgate::broken
