// rejected by: cotangent_linearity; looks like: dx zero
// A row whose gradients are all below 3e-5 is taken for one without, and gets a dx of 0.
#include <algorithm>

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
    float largest = 0;
    for (std::int64_t i = 0; i < group.n; ++i) largest = std::max(largest, std::fabs(t.dy[group.at(i)]));
    if (largest < 3e-5F) {
      for (std::int64_t i = 0; i < group.n; ++i) t.dx[group.at(i)] = 0;
      continue;
    }
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel small_gradients_dropped = backward(NG_RMS_NORM, "broken/small_gradients_dropped", run);

}  // namespace normgate::broken
