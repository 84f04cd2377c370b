// rejected by: gradients; looks like: computes from recomputed statistics; declared the short form
// Declares the short formula with the handed statistics, and computes its own from x.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float variance = squares_around(t.x, group, mean) / group.count();
    const Statistics s{mean, 1 / std::sqrt(variance + static_cast<float>(call->eps))};
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel handed_statistics_ignored = backward(NG_LAYER_NORM, "broken/handed_statistics_ignored", run);

}  // namespace normgate::broken
