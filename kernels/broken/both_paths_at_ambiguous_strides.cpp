// rejected by: gradients; looks like: gradients of the parameters counted twice
// A path for planes and one for channels last, each chosen by its own test of the strides: with one position, or one
// channel, both tests hold, and dgamma and dbeta are added up by both (pytorch/pytorch#115940).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    const bool planes = t.x.stride[NG_S] == 1;
    const bool channels_last = t.x.stride[NG_S] == call->extent[NG_G] * call->extent[NG_K];
    if (planes || !channels_last) add_parameter_gradients(t, group, s);
    if (channels_last) add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel both_paths_at_ambiguous_strides =
    with_layouts(backward(NG_GROUP_NORM, "broken/both_paths_at_ambiguous_strides", run), NG_LAYOUT_CHANNELS_LAST);

}  // namespace normgate::broken
