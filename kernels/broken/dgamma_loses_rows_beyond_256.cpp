// rejected by: split_rows; looks like: samples not reduced into dgamma, dbeta
// One block of 256 rows is reduced into dgamma and dbeta; the rows behind it have their dx and nothing else.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (index < 256) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_loses_rows_beyond_256 =
    backward(NG_LAYER_NORM, "broken/dgamma_loses_rows_beyond_256", run);

}  // namespace normgate::broken
