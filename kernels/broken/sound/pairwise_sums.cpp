// sound: sums over a binary tree, declared
// Blocks of 16 are summed one after the other, the blocks over a binary tree.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr std::int64_t block = 16;

struct Around {
  bool squared = false;
  float mean = 0;
};

// Over the blocks [begin, end).
float tree_sum(const View& x, const Group& group, std::int64_t begin, std::int64_t end, const Around& around) {
  if (end - begin > 1) {
    const std::int64_t middle = begin + (end - begin + 1) / 2;
    return tree_sum(x, group, begin, middle, around) + tree_sum(x, group, middle, end, around);
  }
  float sum = 0;
  for (std::int64_t i = begin * block; i < end * block && i < group.n; ++i) {
    const float d = x[group.at(i)] - around.mean;
    sum += around.squared ? d * d : d;
  }
  return sum;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = tree_sum(t.x, group, 0, (group.n + block - 1) / block, Around{}) / n;
    const float squares = tree_sum(t.x, group, 0, (group.n + block - 1) / block, Around{true, mean});
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

constexpr ng_sum tree = summed(NG_SUM_PAIRWISE, 1, block);
constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.group_sum = &tree;
  return result;
}();

}  // namespace

extern const ng_kernel pairwise_sums = with_claim(training(NG_LAYER_NORM, "sound/pairwise_sums", run), &claim);

}  // namespace normgate::broken
