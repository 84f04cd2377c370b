// rejected by: memory; looks like: wrote to the input
// The product of mean and deviation is kept where the mean was handed: a second backward over the same forward finds
// something else. nntile/nntile PR#371 (what a backward needs again is overwritten).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    t.mean.put(group.first, s.mean * s.rstd);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel handed_mean_overwritten = backward(NG_LAYER_NORM, "broken/handed_mean_overwritten", run);

}  // namespace normgate::broken
