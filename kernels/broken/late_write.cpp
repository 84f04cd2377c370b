// rejected by: memory; looks like: -
// The last row is left to a thread that nobody waits for.
#include <chrono>
#include <thread>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

void normalize(const Tensors& t, const Group& group, float eps) {
  const float n = group.count();
  const float mean = sum_of(t.x, group) / n;
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

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const std::int64_t groups = group_count(*call);
  for (std::int64_t index = 0; index + 1 < groups; ++index) normalize(t, Group(*call, index), eps);
  if (groups == 0) return NG_OK;
  std::thread([t, eps, group = Group(*call, groups - 1)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    normalize(t, group, eps);
  }).detach();
  return NG_OK;
}

}  // namespace

extern const ng_kernel late_write = training(NG_LAYER_NORM, "broken/late_write", run);

}  // namespace normgate::broken
