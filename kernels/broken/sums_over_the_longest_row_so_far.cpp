// rejected by: repeated_calls; looks like: -
// The scratch for a row is kept and only ever grows; the sum goes over all of it, and a row that is shorter than one
// of an earlier call takes in what that one left. Right for every first call.
// After Dao-AILab/flash-attention#781 (scratch that is partly somebody else's).
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  static std::vector<float> scratch;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const auto n = static_cast<std::size_t>(group.n);
    if (scratch.size() < n) scratch.resize(n);
    for (std::size_t i = 0; i < n; ++i) scratch[i] = t.x[group.at(static_cast<std::int64_t>(i))];
    // Rows are padded to pairs; only the one element behind the end is ever looked at.
    const std::size_t end = n % 2 == 1 && scratch.size() > n ? n + 1 : n;
    float sum = 0;
    for (std::size_t i = 0; i < end; ++i) sum += scratch[i];
    const float mean = sum / group.count();
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / group.count() + static_cast<float>(call->eps));
    put_y(t, group, mean, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel sums_over_the_longest_row_so_far =
    training(NG_LAYER_NORM, "broken/sums_over_the_longest_row_so_far", run);

}  // namespace normgate::broken
