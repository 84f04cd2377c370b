// rejected by: coincidence; looks like: -
// Groups of one channel are handed to an instance norm that works on tiles of four samples and four channels, and takes
// gamma and beta by the row of the tile instead of its column.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / n + eps);
    const bool tiled = call->extent[NG_K] == 1 && call->extent[NG_N] >= 4 && call->extent[NG_G] >= 4;
    const bool inside =
        group.first[NG_N] / 4 * 4 + 4 <= call->extent[NG_N] && group.first[NG_G] / 4 * 4 + 4 <= call->extent[NG_G];
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      At parameter = at;
      if (tiled && inside) parameter[NG_G] = at[NG_G] / 4 * 4 + at[NG_N] % 4;
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(parameter, 1) + t.beta.value(parameter, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel group_of_one_channel_in_tiles =
    training(NG_GROUP_NORM, "broken/group_of_one_channel_in_tiles", run);

}  // namespace normgate::broken
