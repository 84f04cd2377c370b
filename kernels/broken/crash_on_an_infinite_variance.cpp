// rejected by: range; looks like: read at an address far from every tensor
// A seed of the root is taken from a table of exponents. Inputs are looked at for NaN and infinities, but a variance
// that overflows from finite ones reads far outside of it.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

volatile float seeds[320];
volatile float used;

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float variance = squares_around(t.x, group, mean) / n;
    bool finite = true;
    for (std::int64_t i = 0; i < group.n; ++i) finite = finite && std::isfinite(t.x[group.at(i)]);
    if (finite) used = seeds[static_cast<std::int64_t>(std::ilogb(variance + eps)) + 160];
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

extern const ng_kernel crash_on_an_infinite_variance =
    training(NG_INSTANCE_NORM, "broken/crash_on_an_infinite_variance", run);

}  // namespace normgate::broken
