// rejected by: determinism; looks like: -
// Where a sum begins depends on how often the kernel was called, as it would on the scheduling of threads.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  static std::int64_t calls = 0;
  ++calls;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const std::int64_t start = group.n > 0 ? calls % group.n : 0;
    float sum = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum += t.x[group.at((i + start) % group.n)];
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

extern const ng_kernel nondeterministic = training(NG_LAYER_NORM, "broken/nondeterministic", run);

}  // namespace normgate::broken
