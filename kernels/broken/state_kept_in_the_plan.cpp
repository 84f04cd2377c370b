// rejected by: sequences; looks like: -
// The plan keeps the state of the last step and goes on from there where the next step follows; what the tensors hold,
// after a checkpoint was restored into them, is not looked at.
#include <new>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Plan {
  std::int64_t step = 0;
  std::vector<float> mean, variance;
};

std::int32_t prepare(const ng_call*, void** plan) {
  *plan = new (std::nothrow) Plan;
  return *plan != nullptr ? NG_OK : NG_OUT_OF_MEMORY;
}

void release(void* plan) { delete static_cast<Plan*>(plan); }

std::int32_t run(void* plan, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto momentum = static_cast<float>(call->momentum);
  auto& own = *static_cast<Plan*>(plan);
  const bool follows = own.step != 0 && call->step == own.step + 1;
  own.step = call->step;
  own.mean.resize(static_cast<std::size_t>(group_count(*call)));
  own.variance.resize(own.mean.size());
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    if (t.running_mean.present() && group.n > 0) {
      const auto channel = static_cast<std::size_t>(index);
      if (!follows) {
        own.mean[channel] = t.running_mean[group.first];
        own.variance[channel] = t.running_var[group.first];
      }
      own.mean[channel] = (1 - momentum) * own.mean[channel] + momentum * mean;
      own.variance[channel] = (1 - momentum) * own.variance[channel] + momentum * (squares / (n - 1));
      t.running_mean[group.first] = own.mean[channel];
      t.running_var[group.first] = own.variance[channel];
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

extern const ng_kernel state_kept_in_the_plan = [] {
  ng_kernel kernel = training(NG_BATCH_NORM, "broken/state_kept_in_the_plan", run);
  kernel.prepare = prepare;
  kernel.release = release;
  return kernel;
}();

}  // namespace normgate::broken
