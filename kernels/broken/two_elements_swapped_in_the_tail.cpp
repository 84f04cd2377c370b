// rejected by: accuracy; looks like: elements swapped
// Wrong at lengths of 2 modulo 8 only: the two elements behind the last whole vector change places.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const bool tail = group.n % 8 == 2 && group.n > 2 && i >= group.n - 2;
      const At from = group.at(tail ? 2 * group.n - 3 - i : i);
      t.y[at] = (t.x[from] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel two_elements_swapped_in_the_tail =
    training(NG_LAYER_NORM, "broken/two_elements_swapped_in_the_tail", run);

}  // namespace normgate::broken
