// rejected by: extents; looks like: -
// An early exit for empty rows looks at the length in 16 bits. Wrong only at multiples of 65536.
// PaddlePaddle/Paddle PR#33534 (a size computed in the wrong type).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    if (static_cast<std::uint16_t>(group.n) == 0) {
      for (std::int64_t i = 0; i < group.n; ++i) t.y[group.at(i)] = 0;
      t.mean.put(group.first, 0);
      t.stat.put(group.first, 1 / std::sqrt(static_cast<float>(call->eps)));
      continue;
    }
    put_normalized(t, group, static_cast<float>(call->eps));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel length_of_65536_taken_for_empty =
    training(NG_LAYER_NORM, "broken/length_of_65536_taken_for_empty", run);

}  // namespace normgate::broken
