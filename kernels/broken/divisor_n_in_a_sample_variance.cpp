// rejected by: finite_differences; looks like: normalizing divisor n; declared n-1, or xhat term of dx over n
// The variance is over n-1; the gradient that comes through it is taken over n.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_convention declared = [] {
  ng_convention result = pytorch();
  result.normalizing_divisor = NG_NORMALIZE_N_MINUS_1;
  return result;
}();
const ng_convention* convention(std::int32_t index) { return index == 0 ? &declared : nullptr; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel divisor_n_in_a_sample_variance =
    with_convention(backward(NG_BATCH_NORM, "broken/divisor_n_in_a_sample_variance", run), convention);

}  // namespace normgate::broken
