// rejected by: accuracy; looks like: -
// The first parameter that is present is taken for gamma: beta alone scales instead of shifting. Seen in
// microsoft/onnxruntime#28424.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const View scale = t.gamma.present() ? t.gamma : t.beta;
  const View shift = t.gamma.present() ? t.beta : View();
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * scale.value(at, 1) + shift.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel optional_parameter_in_the_wrong_slot =
    training(NG_LAYER_NORM, "broken/optional_parameter_in_the_wrong_slot", run);

}  // namespace normgate::broken
