// sound: Kahan's sums, which carry the error of each addition into the next
// Such a sum is within 2u + O(n u^2) of the sum of moduli (Goldberg 1991, theorem 8), whatever n is. There is no name
// for it in a claim; a binary tree has no fewer roundings from three elements on, and of two both make one.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

template <typename Term>
float compensated(const Term& term, std::int64_t n) {
  float sum = 0;
  float lost = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float next = term(i) - lost;
    const float total = sum + next;
    lost = (total - sum) - next;
    sum = total;
  }
  return sum;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = compensated([&](std::int64_t i) { return t.x[group.at(i)]; }, group.n) / n;
    const float squares = compensated(
        [&](std::int64_t i) {
          const float d = t.x[group.at(i)] - mean;
          return d * d;
        },
        group.n);
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

constexpr ng_sum order = summed(NG_SUM_PAIRWISE, 1, 8);
constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.group_sum = &order;
  return result;
}();

}  // namespace

extern const ng_kernel compensated_sums = with_claim(training(NG_LAYER_NORM, "sound/compensated_sums", run), &claim);

}  // namespace normgate::broken
