// rejected by: gradients; looks like: computes from the textbook form; declared the short form
// Goes through the gradients of variance and mean, where the short formula is declared.
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
    float sum_of_xhat = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum_of_xhat += xhat_at(t, group.at(i), s);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float centred_xhat = xhat_at(t, at, s) - sum_of_xhat / n;
      t.dx[at] = s.rstd * (g_at(t, at) - sums.g / n - centred_xhat * (sums.g_xhat / n));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel short_declared_textbook_computed =
    backward(NG_INSTANCE_NORM, "broken/short_declared_textbook_computed", run);

}  // namespace normgate::broken
