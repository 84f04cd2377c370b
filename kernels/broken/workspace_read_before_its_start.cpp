// rejected by: memory; looks like: stray read
// The largest value so far is looked for from the element before the first one on, in front of the workspace; a NaN
// there is never the larger one, and a huge number is.
// The kind of BVLC/caffe#1864 (a window that begins outside).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t workspace_size(void*, const ng_call* call, std::size_t* bytes, std::size_t* alignment) {
  *bytes = static_cast<std::size_t>(call->extent[NG_G] * call->extent[NG_K]) * sizeof(float);
  *alignment = alignof(float);
  return NG_OK;
}

std::int32_t run(void*, const ng_call* call, void* workspace) {
  const Tensors t(*call);
  float* const row = static_cast<float*>(workspace);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    for (std::int64_t i = 0; i < group.n; ++i) row[i] = t.x[group.at(i)];
    float largest = 0;
    for (std::int64_t i = -1; i < group.n; ++i) largest = std::fmax(largest, std::fabs(row[i]));
    // Against overflow; a power of two that no ordinary row needs.
    if (largest > 0x1p120F)
      put_y(t, group, 0, 0);
    else
      put_normalized(t, group, static_cast<float>(call->eps));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel workspace_read_before_its_start = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/workspace_read_before_its_start", run);
  kernel.workspace = workspace_size;
  return kernel;
}();

}  // namespace normgate::broken
