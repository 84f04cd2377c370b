// rejected by: memory; looks like: read past the end of x
// Shifts by the first value of the row without asking whether there is one.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const volatile float* const first_value = &t.x[group.first];
    const float shift = *first_value;
    float sum = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum += t.x[group.at(i)] - shift;
    const float mean = shift + sum / n;
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

extern const ng_kernel crash_on_an_empty_row = training(NG_LAYER_NORM, "broken/crash_on_an_empty_row", run);

}  // namespace normgate::broken
