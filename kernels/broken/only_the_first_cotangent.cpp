// rejected by: cotangent_linearity; looks like: -
// The sums of dx are kept from the call before if x is the same: right as long as each x meets one dy only.
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr std::int64_t rows_kept = 64;
struct Kept {
  std::vector<float> x;
  float rstd = 0;
  Sums sums;
};
std::array<Kept, rows_kept> kept_rows;

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    std::vector<float> x;
    for (std::int64_t i = 0; i < group.n; ++i) x.push_back(t.x[group.at(i)]);
    Kept& kept = kept_rows[static_cast<std::size_t>(index % rows_kept)];
    if (kept.x != x || kept.rstd != s.rstd) kept = {x, s.rstd, sums_of(t, group, s)};
    put_dx(t, group, s, kept.sums.g / group.count(), kept.sums.g_xhat / group.count());
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel only_the_first_cotangent = backward(NG_LAYER_NORM, "broken/only_the_first_cotangent", run);

}  // namespace normgate::broken
