// sound: fused multiply-adds in vectors of 8, plain operations in the tail
// The tail's elements are rounded once more than those of the body; a row has other bits where it ends elsewhere in
// its vector, so nothing is promised but what each row owes to itself.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const std::int64_t body = group.n / 8 * 8;
    const float mean = sum_of(t.x, group) / group.count();
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const float d = t.x[group.at(i)] - mean;
      squares = i < body ? std::fma(d, d, squares) : squares + d * d;
    }
    const float rstd = 1 / std::sqrt(squares / group.count() + static_cast<float>(call->eps));
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float xhat = (t.x[at] - mean) * rstd;
      const float gamma = t.gamma.value(at, 1);
      const float beta = t.beta.value(at, 0);
      t.y[at] = i < body ? std::fma(xhat, gamma, beta) : xhat * gamma + beta;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_claim claim = promising(NG_ROW_INDEPENDENT);

}  // namespace

extern const ng_kernel scalar_tail_behind_fused_body =
    with_claim(training(NG_LAYER_NORM, "sound/scalar_tail_behind_fused_body", run), &claim);

}  // namespace normgate::broken
