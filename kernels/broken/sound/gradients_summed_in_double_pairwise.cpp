// sound: sums of doubles over a binary tree, declared
// Blocks of 16 one after the other, the blocks over a tree; the gradients of the parameters in double as well, sample
// after sample.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr std::int64_t block = 16;

struct Totals {
  double g = 0;
  double g_xhat = 0;
};

// Over the blocks [begin, end).
Totals tree_sum(const Tensors& t, const Group& group, const Statistics& s, std::int64_t begin, std::int64_t end) {
  if (end - begin > 1) {
    const std::int64_t middle = begin + (end - begin + 1) / 2;
    const Totals low = tree_sum(t, group, s, begin, middle);
    const Totals high = tree_sum(t, group, s, middle, end);
    return {low.g + high.g, low.g_xhat + high.g_xhat};
  }
  Totals sums;
  for (std::int64_t i = begin * block; i < end * block && i < group.n; ++i) {
    const At at = group.at(i);
    sums.g += static_cast<double>(g_at(t, at));
    sums.g_xhat += static_cast<double>(g_at(t, at)) * static_cast<double>(xhat_at(t, at, s));
  }
  return sums;
}

constexpr ng_sum tree = summed(NG_SUM_PAIRWISE, 1, block);
constexpr ng_claim claim = [] {
  ng_claim result = short_use;
  result.accumulator = NG_TYPE_FLOAT64;
  result.group_sum = &tree;
  return result;
}();

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    const Totals sums = tree_sum(t, group, s, 0, (group.n + block - 1) / block);
    const auto n = static_cast<double>(group.n);
    put_dx(t, group, s, static_cast<float>(sums.g / n), static_cast<float>(sums.g_xhat / n));
  }
  for (std::int64_t k = 0; k < call->extent[NG_K]; ++k)
    for (std::int64_t g = 0; g < call->extent[NG_G]; ++g) {
      Totals sums;
      for (std::int64_t m = 0; m < call->extent[NG_N]; ++m)
        for (std::int64_t p = 0; p < call->extent[NG_S]; ++p) {
          const At at{m, g, k, p};
          const Statistics s{t.mean[at], t.stat[at]};
          sums.g += static_cast<double>(t.dy[at]);
          sums.g_xhat += static_cast<double>(t.dy[at]) * static_cast<double>(xhat_at(t, at, s));
        }
      t.dgamma.put({0, g, k, 0}, static_cast<float>(sums.g_xhat));
      t.dbeta.put({0, g, k, 0}, static_cast<float>(sums.g));
    }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_summed_in_double_pairwise =
    with_claim(backward(NG_LAYER_NORM, "sound/gradients_summed_in_double_pairwise", run), &claim);

}  // namespace normgate::broken
