// rejected by: single_value; looks like: dx 0 in groups without a variance
// A group without a variance gets a dx of 0; the part that comes through the mean is not 0.
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
    bool constant = true;
    for (std::int64_t i = 1; i < group.n; ++i) constant = constant && t.x[group.at(i)] == t.x[group.first];
    if (constant) {
      for (std::int64_t i = 0; i < group.n; ++i) t.dx[group.at(i)] = 0;
      continue;
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel constant_group_has_no_gradient =
    backward(NG_GROUP_NORM, "broken/constant_group_has_no_gradient", run);

}  // namespace normgate::broken
