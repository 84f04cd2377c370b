// rejected by: determinism; looks like: -
// The plan packs gamma when it first runs and never looks at it again: right for the first data only.
#include <new>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Plan {
  std::vector<float> gamma;
  bool packed = false;
};

std::int32_t prepare(const ng_call*, void** plan) {
  *plan = new (std::nothrow) Plan;
  return *plan != nullptr ? NG_OK : NG_OUT_OF_MEMORY;
}

void release(void* plan) { delete static_cast<Plan*>(plan); }

std::int32_t run(void* plan, const ng_call* call, void*) {
  const Tensors t(*call);
  auto& packed = *static_cast<Plan*>(plan);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    if (!packed.packed) {
      for (std::int64_t i = 0; i < group.n; ++i) packed.gamma.push_back(t.gamma.value(group.at(i), 1));
      packed.packed = true;
    }
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - mean;
      squares += d * d;
    }
    const float rstd = 1 / std::sqrt(squares / n + static_cast<float>(call->eps));
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * packed.gamma[static_cast<std::size_t>(i)] + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel stale_plan = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/stale_plan", run);
  kernel.prepare = prepare;
  kernel.release = release;
  return kernel;
}();

}  // namespace normgate::broken
