// rejected by: layouts; looks like: -
// Declines padded rows, as it may; in channels last, which it takes on, the last position of each row is normalized
// with the deviation of another. One declined variation must not hide the others.
#include <cstdio>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

bool dense(const ng_call& call) {
  for (const int role : {NG_X, NG_Y}) {
    const ng_tensor* tensor = call.tensor[role];
    if (tensor == nullptr) continue;
    std::int64_t span = 1;
    std::int64_t count = 1;
    for (std::size_t a = 0; a < NG_AXES; ++a) {
      span += (call.extent[a] - 1) * tensor->stride[a];
      count *= call.extent[a];
    }
    if (count > 0 && span != count) return false;
  }
  return true;
}

std::int32_t supports(const ng_call* call) {
  if (dense(*call)) return 1;
  if (call->text != nullptr) std::snprintf(call->text, call->text_size, "padding is not supported");
  return 0;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    put_normalized(t, group, static_cast<float>(call->eps));
    const bool channels_last = call->extent[NG_S] > 1 && t.x.stride[NG_S] > 1;
    if (channels_last && group.n > 2) t.y[group.at(group.n - 1)] = t.y[group.at(0)];
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel declines_padding_and_misreads_channels_last = [] {
  ng_kernel kernel = with_layouts(training(NG_GROUP_NORM, "broken/declines_padding_and_misreads_channels_last", run),
                                  NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED);
  kernel.supports = supports;
  return kernel;
}();

}  // namespace normgate::broken
