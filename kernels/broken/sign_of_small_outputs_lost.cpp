// rejected by: sign_symmetry; looks like: -
// Outputs are stored through a table of exponents that has no sign below 2^-50.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) squares += t.x[group.at(i)] * t.x[group.at(i)];
    const float rstd = 1 / std::sqrt(squares / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float y = t.x[at] * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
      t.y[at] = std::fabs(y) < 0x1p-50F ? std::fabs(y) : y;
    }
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel sign_of_small_outputs_lost = training(NG_RMS_NORM, "broken/sign_of_small_outputs_lost", run);

}  // namespace normgate::broken
