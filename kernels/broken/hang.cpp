// rejected by: memory; looks like: -
// The table of what the tail takes next has no entry for 7 elements left: nothing is taken, for ever.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    static constexpr std::int64_t takes[8] = {0, 1, 2, 2, 4, 4, 4, 0};
    volatile std::int64_t left = group.n;
    float sum = 0;
    while (left > 0) {
      const std::int64_t take = left >= 8 ? 8 : takes[left];
      for (std::int64_t i = group.n - left, end = i + take; i < end; ++i) sum += t.x[group.at(i)];
      left = left - take;
    }
    const float mean = sum / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel hang = training(NG_LAYER_NORM, "broken/hang", run);

}  // namespace normgate::broken
