// rejected by: accuracy; looks like: -
// Sums into a workspace that it takes for zeros. Seen in torch/nn#318.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t workspace_size(void*, const ng_call*, std::size_t* bytes, std::size_t* alignment) {
  *bytes = 2 * sizeof(float);
  *alignment = alignof(float);
  return NG_OK;
}

std::int32_t run(void*, const ng_call* call, void* workspace) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    float* const sums = static_cast<float*>(workspace);
    for (std::int64_t i = 0; i < group.n; ++i) sums[0] += t.x[group.at(i)];
    const float mean = sums[0] / n;
    sums[0] = 0;  // for the next row
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

extern const ng_kernel workspace_taken_for_zeros = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/workspace_taken_for_zeros", run);
  kernel.workspace = workspace_size;
  return kernel;
}();

}  // namespace normgate::broken
