// rejected by: accuracy; looks like: gain per group
// Four Newton steps for the reciprocal root that begin at 1/v: fine near 1, not there yet for large v, off to the other
// sign and away for small v. Seen in PTO-ISA/SuperNPUBench PR#28.
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
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float v = variance + eps;
    float rstd = 1 / v;
    for (int step = 0; step < 4; ++step) rstd = rstd * (1.5F - 0.5F * v * rstd * rstd);
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

extern const ng_kernel newton_from_a_bad_seed = training(NG_LAYER_NORM, "broken/newton_from_a_bad_seed", run);

}  // namespace normgate::broken
