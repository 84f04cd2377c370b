// rejected by: exact_data; looks like: all outputs zero
// Rows of whole blocks of 64 and without beta take a path of their own that returns early: y is all zeros for this one
// combination. Seen in PaddlePaddle/Paddle PR#74149, where it is gradients.
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
    const bool special_path = group.n % 64 == 0 && !t.beta.present();
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = 0;
      if (!special_path) t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel zero_at_multiples_of_64_without_beta =
    training(NG_LAYER_NORM, "broken/zero_at_multiples_of_64_without_beta", run);

}  // namespace normgate::broken
