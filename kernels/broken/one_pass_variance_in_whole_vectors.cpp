// rejected by: accuracy; looks like: one-pass variance
// Wrong at multiples of 8 only: the vector path takes the mean of squares less the square of the mean, the path with a
// tail is centred. A path of its own for each kind of length hides one from a test of the other, as in XPU-
// Forces/mojo_opset PR#340.
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
    float squares = 0;
    if (group.n % 8 == 0) {
      for (std::int64_t i = 0; i < group.n; ++i) squares += t.x[group.at(i)] * t.x[group.at(i)];
      squares -= n * mean * mean;
      if (squares < 0) squares = 0;
    } else {
      squares = squares_around(t.x, group, mean);
    }
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

extern const ng_kernel one_pass_variance_in_whole_vectors =
    training(NG_LAYER_NORM, "broken/one_pass_variance_in_whole_vectors", run);

}  // namespace normgate::broken
