// rejected by: gradients; looks like: -
// The grid has 4096 rows: those behind it are computed once more at the beginning, and their own dx is left as
// it was.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index % 4096);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel rows_wrap_at_4096 = backward(NG_LAYER_NORM, "broken/rows_wrap_at_4096", run);

}  // namespace normgate::broken
