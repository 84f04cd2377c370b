// sound: works through prepare, workspace and release
// The plan keeps what follows from the description; the data of a call are not in it.
#include <new>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Plan {
  float eps;
  std::int64_t groups;
};

std::int32_t prepare(const ng_call* call, void** plan) {
  *plan = new (std::nothrow) Plan{static_cast<float>(call->eps), group_count(*call)};
  return *plan != nullptr ? NG_OK : NG_OUT_OF_MEMORY;
}

std::int32_t workspace_size(void*, const ng_call* call, std::size_t* bytes, std::size_t* alignment) {
  *bytes = static_cast<std::size_t>(call->extent[NG_G] * call->extent[NG_K]) * sizeof(float);
  *alignment = alignof(float);
  return NG_OK;
}

void release(void* plan) { delete static_cast<Plan*>(plan); }

std::int32_t run(void* plan, const ng_call* call, void* workspace) {
  const Tensors t(*call);
  const auto [eps, groups] = *static_cast<const Plan*>(plan);
  float* const row = static_cast<float*>(workspace);
  for (std::int64_t index = 0; index < groups; ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      row[i] = t.x[group.at(i)] - mean;
      squares += row[i] * row[i];
    }
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = row[i] * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel plan_and_workspace = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "sound/plan_and_workspace", run);
  kernel.prepare = prepare;
  kernel.workspace = workspace_size;
  kernel.release = release;
  return kernel;
}();

}  // namespace normgate::broken
