// rejected by: epsilon; looks like: -
// A row of zeros is divided by its largest element: 0/0. keras-team/keras#23075 and apple/coremltools#2821 have their
// like.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = 0;
    float largest = 0;
    for (std::int64_t i = 0; i < group.n; ++i) largest = std::fmax(largest, std::fabs(t.x[group.at(i)]));
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) squares += t.x[group.at(i)] * t.x[group.at(i)];
    const float variance = squares / n;
    const float rstd = largest / largest / std::sqrt(variance + eps);
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

extern const ng_kernel zero_row_makes_nan = training(NG_RMS_NORM, "broken/zero_row_makes_nan", run);

}  // namespace normgate::broken
