// rejected by: epsilon; looks like: eps scaled by the largest square
// The row is divided by its largest element against overflow, and eps is added to the scaled mean square: the eps in
// effect is eps times the square of the largest. Seen in apple/coremltools#2821.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float largest = 0;
    for (std::int64_t i = 0; i < group.n; ++i) largest = std::fmax(largest, std::fabs(t.x[group.at(i)]));
    if (largest == 0) largest = 1;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float scaled = t.x[group.at(i)] / largest;
      squares += scaled * scaled;
    }
    const float mean_square = squares / n;
    const float rrms = 1 / std::sqrt(mean_square + eps) / largest;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = t.x[at] * rrms * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.stat.put(group.first, rrms);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel eps_scaled_by_the_maximum = training(NG_RMS_NORM, "broken/eps_scaled_by_the_maximum", run);

}  // namespace normgate::broken
