// rejected by: gradients; looks like: sequential sums in groups
// Claims sums over a binary tree and adds one after the other: what shows is the length of the sums.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_sum tree = summed(NG_SUM_PAIRWISE, 1, 8);
constexpr ng_claim claim = [] {
  ng_claim result = short_use;
  result.group_sum = &tree;
  result.across_groups = &tree;
  return result;
}();

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

extern const ng_kernel sequential_gradient_sums_claimed_pairwise =
    with_claim(backward(NG_INSTANCE_NORM, "broken/sequential_gradient_sums_claimed_pairwise", run), &claim);

}  // namespace normgate::broken
