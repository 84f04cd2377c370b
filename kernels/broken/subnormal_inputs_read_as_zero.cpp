// rejected by: range; looks like: -
// Inputs below 2^-126 are read as 0, and that subnormals are flushed is not declared.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float read(float x) { return std::fabs(x) < 0x1p-126F ? 0 : x; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float x = read(t.x[group.at(i)]);
      squares += x * x;
    }
    const float rstd = 1 / std::sqrt(squares / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = read(t.x[at]) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel subnormal_inputs_read_as_zero =
    training(NG_RMS_NORM, "broken/subnormal_inputs_read_as_zero", run);

}  // namespace normgate::broken
