// rejected by: memory; looks like: stray read
// Reads one element behind the last row and multiplies it by 0. It never leaves the page, so only a NaN behind the data
// shows it.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float sum = sum_of(t.x, group);
    if (index + 1 == group_count(*call) && group.n > 0) {
      const float* const behind = &t.x[group.at(group.n - 1)] + 1;
      const bool new_page = reinterpret_cast<std::uintptr_t>(behind) % 4096 == 0;
      if (!new_page) sum += 0 * *behind;
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

extern const ng_kernel read_past_the_end_inside = training(NG_LAYER_NORM, "broken/read_past_the_end_inside", run);

}  // namespace normgate::broken
