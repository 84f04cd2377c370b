// sound: promises what holds of a loop per row
// A row is computed by one loop that reads nothing of the others, in logical order, and means are quotients by n. The
// totals of dgamma and dbeta are over rows, of which no promise speaks.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_claim claim = [] {
  ng_claim result = short_use;
  result.promises = NG_DIVIDES_BY_N | NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT;
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

extern const ng_kernel gradients_keep_promises =
    with_claim(backward(NG_LAYER_NORM, "sound/gradients_keep_promises", run), &claim);

}  // namespace normgate::broken
