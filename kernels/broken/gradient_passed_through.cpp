// rejected by: finite_differences; looks like: dx is dy
// dx is dy (andersbll/deeppy#15).
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
    for (std::int64_t i = 0; i < group.n; ++i) t.dx[group.at(i)] = t.dy[group.at(i)];
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradient_passed_through = backward(NG_INSTANCE_NORM, "broken/gradient_passed_through", run);

}  // namespace normgate::broken
