// sound: declines odd lengths through supports, with a reason
// A refusal is no failure; it counts as not tested.
#include <cstdio>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t supports(const ng_call* call) {
  if (call->extent[NG_G] * call->extent[NG_K] % 2 == 0) return 1;
  if (call->text != nullptr) std::snprintf(call->text, call->text_size, "rows of odd length are not supported");
  return 0;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
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
  return NG_OK;
}

}  // namespace

extern const ng_kernel refuses_odd_lengths = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "sound/refuses_odd_lengths", run);
  kernel.supports = supports;
  return kernel;
}();

}  // namespace normgate::broken
