// rejected by: repeated_calls; looks like: -
// A cumulative average whose plan keeps the step: right for the first call on a plan, which the steps after it share.
// pytorch/pytorch PR#194579 (the count of a cumulative average where a compiled path has it from).
#include <new>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t prepare(const ng_call* call, void** plan) {
  *plan = new (std::nothrow) std::int64_t(call->step);
  return *plan != nullptr ? NG_OK : NG_OUT_OF_MEMORY;
}
void release(void* plan) { delete static_cast<std::int64_t*>(plan); }

std::int32_t run(void* plan, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto step = static_cast<float>(*static_cast<const std::int64_t*>(plan));
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float squares = squares_around(t.x, group, mean);
    put_y(t, group, mean, 1 / std::sqrt(squares / group.count() + static_cast<float>(call->eps)));
    if (!t.running_mean.present() || group.n == 0) continue;
    t.running_mean[group.first] += (mean - t.running_mean[group.first]) / step;
    t.running_var[group.first] += (squares / group.count() - t.running_var[group.first]) / step;
  }
  return NG_OK;
}

constexpr ng_convention cumulative = [] {
  ng_convention result = pytorch();
  result.momentum_form = NG_MOMENTUM_CUMULATIVE;
  result.stored_divisor = NG_STORE_N;
  return result;
}();
const ng_convention* convention(std::int32_t) { return &cumulative; }

}  // namespace

extern const ng_kernel step_of_the_first_call = [] {
  ng_kernel kernel = with_convention(training(NG_BATCH_NORM, "broken/step_of_the_first_call", run), convention);
  kernel.prepare = prepare;
  kernel.release = release;
  return kernel;
}();

}  // namespace normgate::broken
