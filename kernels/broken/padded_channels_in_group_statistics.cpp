// rejected by: accuracy; looks like: -
// Groups of channels are padded to a power of two; the sum of squares takes the padding for channels of value 0.
// flagos-ai/FlagGems#4984 (group size 3), tile-ai/TileOPs#429. Right where a group has a power of two of channels.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  std::int64_t block = 1;
  while (block < call->extent[NG_K]) block *= 2;
  const auto padding = static_cast<float>((block - call->extent[NG_K]) * call->extent[NG_S]);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float squares = squares_around(t.x, group, mean) + padding * mean * mean;
    put_y(t, group, mean, 1 / std::sqrt(squares / group.count() + static_cast<float>(call->eps)));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel padded_channels_in_group_statistics =
    training(NG_GROUP_NORM, "broken/padded_channels_in_group_statistics", run);

}  // namespace normgate::broken
