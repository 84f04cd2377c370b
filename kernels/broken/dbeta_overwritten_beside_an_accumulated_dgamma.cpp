// rejected by: split_rows; looks like: dbeta overwritten; declared accumulate
// Declares that gradients accumulate: dgamma does, dbeta is cleared first (apache/mxnet#16297: one of the two counted
// up).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.gradients = NG_GRADIENTS_ACCUMULATE;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t g = 0; g < call->extent[NG_G]; ++g)
    for (std::int64_t k = 0; k < call->extent[NG_K]; ++k) t.dbeta.put({0, g, k, 0}, 0);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dbeta_overwritten_beside_an_accumulated_dgamma =
    with_convention(backward(NG_LAYER_NORM, "broken/dbeta_overwritten_beside_an_accumulated_dgamma", run), convention);

}  // namespace normgate::broken
