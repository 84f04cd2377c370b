// rejected by: epsilon; looks like: eps raised to 2^-23
// An eps below the precision of float32 is taken for one that was not given, and replaced by it: pytorch/pytorch#189581
// has that for a default.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float least = 0x1p-23F;
    const float squares = squares_around(t.x, group, 0);
    const float mean = 0;
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + (eps < least ? least : eps));
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

extern const ng_kernel eps_at_least_machine_epsilon = training(NG_RMS_NORM, "broken/eps_at_least_machine_epsilon", run);

}  // namespace normgate::broken
