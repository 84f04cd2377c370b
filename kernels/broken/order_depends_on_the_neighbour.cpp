// rejected by: row_independence; looks like: -
// Promises that a row's bits do not depend on other rows' values; but one accumulator runs through all rows, and what
// was in it before a row is subtracted afterwards.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  float total = 0;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float before = total;
    for (std::int64_t i = 0; i < group.n; ++i) total += t.x[group.at(i)];
    const float mean = (total - before) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_claim claim = promising(NG_ROW_INDEPENDENT);

}  // namespace

extern const ng_kernel order_depends_on_the_neighbour =
    with_claim(training(NG_LAYER_NORM, "broken/order_depends_on_the_neighbour", run), &claim);

}  // namespace normgate::broken
