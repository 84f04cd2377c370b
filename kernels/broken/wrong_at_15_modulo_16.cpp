// rejected by: accuracy; looks like: -
// The tail of a row is masked by a shift that is one too far for fifteen lanes: the last of them is left out of the sum
// of squares. unslothai/unsloth PR#1867. Wrong only for n = 15 modulo 16.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    float squares = squares_around(t.x, group, mean);
    if (group.n % 16 == 15) {
      const float d = t.x[group.at(group.n - 1)] - mean;
      squares -= d * d;
    }
    put_y(t, group, mean, 1 / std::sqrt(squares / group.count() + static_cast<float>(call->eps)));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel wrong_at_15_modulo_16 = training(NG_LAYER_NORM, "broken/wrong_at_15_modulo_16", run);

}  // namespace normgate::broken
