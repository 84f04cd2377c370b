// rejected by: sequences; looks like: -
// The number of steps is kept in eight bits: at step 256 the cumulative average begins anew.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto count = static_cast<std::uint8_t>(call->step);
  const auto steps = static_cast<float>(count > 0 ? count : 1);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    if (t.running_mean.present() && group.n > 0) {
      float& running_mean = t.running_mean[group.first];
      float& running_var = t.running_var[group.first];
      running_mean = running_mean + (mean - running_mean) / steps;
      running_var = running_var + (squares / (n - 1) - running_var) / steps;
    }
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.momentum_form = NG_MOMENTUM_CUMULATIVE;
  return result;
}();

const ng_convention* convention(std::int32_t) { return &declared; }

}  // namespace

extern const ng_kernel cumulative_count_in_eight_bits =
    with_convention(training(NG_BATCH_NORM, "broken/cumulative_count_in_eight_bits", run), convention);

}  // namespace normgate::broken
