// rejected by: epsilon; looks like: -
// Promises that a constant group gives exactly beta, and multiplies every value by a rounded 1/n before it is added:
// nine values of 100 have the mean 100.00001. Seen in BVLC/caffe#3963.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float reciprocal = 1 / n;
    float mean = 0;
    for (std::int64_t i = 0; i < group.n; ++i) mean += t.x[group.at(i)] * reciprocal;
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

constexpr ng_claim claim = promising(NG_CONSTANT_EXACT | NG_DIVIDES_BY_N);

}  // namespace

extern const ng_kernel reciprocal_of_n = with_claim(training(NG_LAYER_NORM, "broken/reciprocal_of_n", run), &claim);

}  // namespace normgate::broken
