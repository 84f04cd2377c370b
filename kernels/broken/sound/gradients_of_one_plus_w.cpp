// sound: g = dy (1 + w)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float factor(const Tensors& t, const At& at) { return t.gamma.present() ? 1 + t.gamma[at] : 1; }

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.gamma_offset = NG_GAMMA_PLUS_ONE;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    Sums sums;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      sums.g_xhat += t.dy[at] * factor(t, at) * xhat_at(t, at, s);
    }
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.dx[at] = s.rstd * (t.dy[at] * factor(t, at) - xhat_at(t, at, s) * (sums.g_xhat / group.count()));
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_of_one_plus_w =
    with_convention(backward(NG_RMS_NORM, "sound/gradients_of_one_plus_w", run), convention);

}  // namespace normgate::broken
