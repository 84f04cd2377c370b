// rejected by: gradients; looks like: groups not reduced into dgamma, dbeta
// The number of rows that are reduced into dgamma and dbeta is taken from the first axis alone: right for one group
// per sample (flagos-ai/FlagGems#5392).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (index < call->extent[NG_N]) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel rows_counted_by_the_first_axis =
    backward(NG_GROUP_NORM, "broken/rows_counted_by_the_first_axis", run);

}  // namespace normgate::broken
