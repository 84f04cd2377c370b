// rejected by: exact_gradients; looks like: means by a product with 1/n
// Means are promised to be quotients by n, and are products with a rounded 1/n.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_claim claim = [] {
  ng_claim result = short_use;
  result.promises = NG_DIVIDES_BY_N;
  return result;
}();

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    const Sums sums = sums_of(t, group, s);
    const float reciprocal = 1 / group.count();
    put_dx(t, group, s, sums.g * reciprocal, sums.g_xhat * reciprocal);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel means_by_reciprocal_of_n =
    with_claim(backward(NG_LAYER_NORM, "broken/means_by_reciprocal_of_n", run), &claim);

}  // namespace normgate::broken
