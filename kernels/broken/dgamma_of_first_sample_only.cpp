// rejected by: split_rows; looks like: only the first sample reduced into dgamma, dbeta
// The reduction over the samples is forgotten: dgamma and dbeta are those of the first (flagos-ai/FlagGems PR#59).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    if (group.first[NG_N] == 0) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dgamma_of_first_sample_only = backward(NG_GROUP_NORM, "broken/dgamma_of_first_sample_only", run);

}  // namespace normgate::broken
