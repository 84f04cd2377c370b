// rejected by: accuracy; looks like: gamma and beta swapped
// Where both are present gamma shifts and beta scales: the arguments of the library underneath, in the wrong order
// (jiazhihao/TASO PR#47).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

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
    const bool both = t.gamma.present() && t.beta.present();
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float scale = both ? t.beta[at] : t.gamma.value(at, 1);
      const float shift = both ? t.gamma[at] : t.beta.value(at, 0);
      t.y[at] = (t.x[at] - mean) * rstd * scale + shift;
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel beta_and_gamma_swapped = training(NG_INSTANCE_NORM, "broken/beta_and_gamma_swapped", run);

}  // namespace normgate::broken
