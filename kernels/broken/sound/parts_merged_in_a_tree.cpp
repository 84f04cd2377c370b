// sound: partial statistics merged as a binary tree, by weighted means
// Halves of the parts, down to one; variances are kept, weighted by counts.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

// The sum of f(x) from `begin` to `end`, as a binary tree; the number of its levels is that of the claim.
template <typename F>
float pairwise(const View& x, const Group& group, std::int64_t begin, std::int64_t end, const F& f) {
  if (end - begin <= 1) return begin < end ? f(x[group.at(begin)]) : 0;
  const std::int64_t middle = begin + (end - begin) / 2;
  return pairwise(x, group, begin, middle, f) + pairwise(x, group, middle, end, f);
}

// The parts from `begin` to `end`.
Merged merged_range(const Tensors& t, const Group& group, std::int64_t begin, std::int64_t end) {
  Merged merged;
  if (end - begin <= 1) {
    if (begin < end) {
      const Part part(t, group, begin);
      if (part.count != 0) merged = {part.count, part.mean, part.count * part.variance};
    }
    return merged;
  }
  const std::int64_t middle = begin + (end - begin) / 2;
  const Merged a = merged_range(t, group, begin, middle);
  const Merged b = merged_range(t, group, middle, end);
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const float n = a.n + b.n;
  const float d = b.mean - a.mean;
  merged.n = n;
  merged.mean = (a.n * a.mean + b.n * b.mean) / n;
  merged.squares = a.squares + b.squares + d * d * a.n * b.n / n;
  return merged;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    if (call->phase == NG_STATISTICS) {
      const float n = group.count();
      const float mean = pairwise(t.x, group, 0, group.n, [](float x) { return x; }) / n;
      t.mean.put(group.first, mean);
      t.stat.put(group.first,
                 pairwise(t.x, group, 0, group.n, [mean](float x) { return (x - mean) * (x - mean); }) / n);
      continue;
    }
    put_merged(t, group, merged_range(t, group, 0, group.n));
  }
  return NG_OK;
}

constexpr ng_sum tree = summed(NG_SUM_PAIRWISE, 1, 1);
constexpr ng_claim claim = [] {
  ng_claim result{};
  result.struct_size = sizeof(ng_claim);
  result.group_sum = &tree;
  return result;
}();

}  // namespace

extern const ng_kernel parts_merged_in_a_tree =
    with_claim(merging(NG_BATCH_NORM, "sound/parts_merged_in_a_tree", run), &claim);

}  // namespace normgate::broken
