// rejected by: sequences; looks like: -
// The weight 1/step of a cumulative average is computed with the plan, at the step for which it was prepared, and
// serves all later steps.
#include <new>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Plan {
  float weight;
};

std::int32_t prepare(const ng_call* call, void** plan) {
  *plan = new (std::nothrow) Plan{1 / static_cast<float>(call->step)};
  return *plan != nullptr ? NG_OK : NG_OUT_OF_MEMORY;
}

void release(void* plan) { delete static_cast<Plan*>(plan); }

std::int32_t run(void* plan, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const float weight = static_cast<const Plan*>(plan)->weight;
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
      running_mean = running_mean + (mean - running_mean) * weight;
      running_var = running_var + (squares / (n - 1) - running_var) * weight;
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

extern const ng_kernel cumulative_weight_kept_in_the_plan = [] {
  ng_kernel kernel = training(NG_BATCH_NORM, "broken/cumulative_weight_kept_in_the_plan", run);
  kernel.prepare = prepare;
  kernel.release = release;
  return with_convention(kernel, convention);
}();

}  // namespace normgate::broken
