// rejected by: single_value; looks like: dx not finite in groups without a variance
// The last term of dx goes through the norm of the row, x/|x|² times sum(g x): 0/0 where a row is zero, although the
// forward is finite (keras-team/keras#23075).
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
    float squares = 0;
    float products = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      squares += t.x[at] * t.x[at];
      products += g_at(t, at) * t.x[at];
    }
    const float share = s.rstd * s.rstd * (squares / group.count());  // 1 but for eps
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.dx[at] = s.rstd * (g_at(t, at) - t.x[at] * (products / squares) * share);
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel zero_row_divides_by_its_norm = backward(NG_RMS_NORM, "broken/zero_row_divides_by_its_norm", run);

}  // namespace normgate::broken
