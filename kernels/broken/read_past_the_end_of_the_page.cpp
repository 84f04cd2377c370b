// rejected by: memory; looks like: read past the end of x
// Loads whole vectors of 8 and drops the lanes that are too many: harmless until the tensor ends where its page ends.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float sum = 0;
    for (std::int64_t i = 0; i < (group.n + 7) / 8 * 8; ++i) {
      const bool tail = i >= group.n;
      const volatile float* const x = &t.x[group.at(tail ? group.n - 1 : i)] + (tail ? i - group.n + 1 : 0);
      const float lane = *x;
      sum += tail ? 0 : lane;
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

extern const ng_kernel read_past_the_end_of_the_page =
    training(NG_LAYER_NORM, "broken/read_past_the_end_of_the_page", run);

}  // namespace normgate::broken
