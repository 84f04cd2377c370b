// rejected by: accuracy; looks like: -
// Wide rows are shared by two halves of a block, and the buffer that the mean is read from takes in the sum of squares
// before the second half has read it. ml-explore/mlx PR#2340. Wrong only for rows above 1024, as one order of the race.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    float buffer = sum_of(t.x, group) / group.count();
    const float mean = buffer;
    const float variance = squares_around(t.x, group, mean) / group.count();
    const float rstd = 1 / std::sqrt(variance + static_cast<float>(call->eps));
    put_y(t, group, mean, rstd);
    if (group.n <= 1024) continue;
    buffer = variance;
    for (std::int64_t i = group.n / 2; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - buffer) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel reduction_buffer_reused = training(NG_LAYER_NORM, "broken/reduction_buffer_reused", run);

}  // namespace normgate::broken
