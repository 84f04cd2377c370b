// rejected by: accuracy; looks like: parts merged without the difference of their means
// Right for a batch of one: the variance is that around the means of the single samples, and what lies between them is
// lost.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const std::int64_t positions = call->extent[NG_S];
    float squares = 0;
    for (std::int64_t begin = 0; begin < group.n; begin += positions) {
      float part = 0;
      for (std::int64_t i = begin; i < begin + positions; ++i) part += t.x[group.at(i)];
      part /= static_cast<float>(positions);
      for (std::int64_t i = begin; i < begin + positions; ++i) {
        const float d = t.x[group.at(i)] - part;
        squares += d * d;
      }
    }
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

extern const ng_kernel variance_within_the_samples = training(NG_BATCH_NORM, "broken/variance_within_the_samples", run);

}  // namespace normgate::broken
