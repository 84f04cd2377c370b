// rejected by: memory; looks like: read past the end of x
// In channels last, channels are read in pairs, also the last one of an odd number.
// ROCm/rocm-libraries PR#11093. Wrong only in channels last with an odd number of channels.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
  const bool channels_last = call->extent[NG_S] > 1 && t.x.stride[NG_S] == channels && channels > 1;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    volatile float neighbour = 0;
    if (channels_last && index % 2 == 0)
      for (std::int64_t i = 0; i < group.n; ++i) {
        const volatile float* pair = &t.x[group.at(i)];
        neighbour = neighbour + pair[1];  // summed for the channel behind, which has its own pass here
      }
    put_normalized(t, group, static_cast<float>(call->eps));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel pairs_of_channels_past_the_end = [] {
  ng_kernel kernel =
      with_layouts(training(NG_BATCH_NORM, "broken/pairs_of_channels_past_the_end", run), NG_LAYOUT_CHANNELS_LAST);
  kernel.supported_roles[NG_FORWARD_TRAINING] &= ~running_roles;
  return kernel;
}();

}  // namespace normgate::broken
