// rejected by: jacobian; looks like: -
// In rows of one vector of 16 lanes a dy that is 0 but for one lane is looked up in a table of lanes, whose entry for
// lane 6 says 7 (the kind of ROCm/aiter#5044: the right store at the wrong place).
#include <utility>

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
    put_training_dx(*call, t, group, s);
    std::int64_t nonzero = 0;
    for (std::int64_t i = 0; i < group.n; ++i) nonzero += t.dy[group.at(i)] != 0 ? 1 : 0;
    if (group.n == 16 && nonzero == 1 && t.dy[group.at(6)] != 0) std::swap(t.dx[group.at(6)], t.dx[group.at(7)]);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel table_of_single_lanes = backward(NG_LAYER_NORM, "broken/table_of_single_lanes", run);

}  // namespace normgate::broken
