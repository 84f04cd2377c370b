// rejected by: gradients; looks like: computes from recomputed statistics; declared the short form
// Declares the short formula with what it is handed; the deviation is, the mean is computed from x once more (two
// sources of one statistic, as in flagos-ai/FlagGems PR#5223).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    if (group.n == 0) continue;
    const Statistics s{sum_of(t.x, group) / group.count(), t.stat[group.first]};
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel mean_of_its_own_beside_a_handed_rstd =
    backward(NG_LAYER_NORM, "broken/mean_of_its_own_beside_a_handed_rstd", run);

}  // namespace normgate::broken
