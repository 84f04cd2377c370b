// rejected by: gradients; looks like: samples not reduced into dgamma, dbeta
// Rows are reduced in blocks of 32 into dgamma and dbeta; a last block that is not full is dropped, unless it is the
// only one.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    const std::int64_t whole = group_count(*call) / 32 * 32;
    if (index < whole || whole == 0) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_loses_the_last_rows = backward(NG_RMS_NORM, "broken/dgamma_loses_the_last_rows", run);

}  // namespace normgate::broken
