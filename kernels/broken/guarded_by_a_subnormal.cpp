// rejected by: caller_environment; looks like: -
// Scales each row by a power of two near its largest deviation, which a tiny summand keeps from being 0. Under the
// caller's flush-to-zero that summand is 0, and a constant row becomes NaN.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    volatile float tiny = 0x1p-100F;
    tiny = tiny * 0x1p-40F;
    float largest = tiny;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float size = std::fabs(t.x[group.at(i)] - mean);
      if (size > 0x1p-120F) largest = std::fmax(largest, size);
    }
    // Whole rows of deviations below the guard are divided by it alone.
    const float scale = largest > 0x1p-120F ? std::exp2(std::floor(std::log2(largest))) : tiny;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = (t.x[group.at(i)] - mean) / scale;
      squares += d * d;
    }
    const float rstd = 1 / std::sqrt(squares / group.count() + eps / scale / scale);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) / scale * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel guarded_by_a_subnormal = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/guarded_by_a_subnormal", run);
  kernel.supported_roles[NG_FORWARD_TRAINING] = affine_roles;
  return kernel;
}();

}  // namespace normgate::broken
