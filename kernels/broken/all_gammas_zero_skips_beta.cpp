// rejected by: affine; looks like: all outputs zero
// A branch whose gammas are all 0, as residual branches begin, is skipped and gives 0: beta is forgotten.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  bool all_zero = t.gamma.present();
  for (std::int64_t g = 0; g < call->extent[NG_G]; ++g)
    for (std::int64_t k = 0; k < call->extent[NG_K]; ++k) all_zero = all_zero && t.gamma.value({0, g, k, 0}, 1) == 0;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = all_zero ? 0 : (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel all_gammas_zero_skips_beta = training(NG_BATCH_NORM, "broken/all_gammas_zero_skips_beta", run);

}  // namespace normgate::broken
