// sound: keeps the weights of momentum and the correction in the plan
// The plan keeps what follows from the description, n/(n-1) and the weights of a step, and computes the rest from the
// call: state and step are the tensors' and the call's.
#include <new>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Plan {
  float keep;
  float take;
  float correction;
};

std::int32_t prepare(const ng_call* call, void** plan) {
  const auto momentum = static_cast<float>(call->momentum);
  const auto n = static_cast<float>(call->extent[NG_N] * call->extent[NG_S]);
  *plan = new (std::nothrow) Plan{1 - momentum, momentum, n / (n - 1)};
  return *plan != nullptr ? NG_OK : NG_OUT_OF_MEMORY;
}

void release(void* plan) { delete static_cast<Plan*>(plan); }

std::int32_t run(void* plan, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto& own = *static_cast<const Plan*>(plan);
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
      running_mean = own.keep * running_mean + own.take * mean;
      running_var = own.keep * running_var + own.take * (variance * own.correction);
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

}  // namespace

extern const ng_kernel plan_across_steps = [] {
  ng_kernel kernel = training(NG_BATCH_NORM, "sound/plan_across_steps", run);
  kernel.prepare = prepare;
  kernel.release = release;
  return kernel;
}();

}  // namespace normgate::broken
