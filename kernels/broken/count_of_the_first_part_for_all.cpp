// rejected by: accuracy; looks like: -
// Every part is merged with the count of the first: right where all are as long (pytorch/pytorch#22192: the same count
// is assumed on every rank).
#include <algorithm>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

// Statistics of parts as ranks send them: mean, squares around it, count.
struct Share {
  float mean = 0;
  float squares = 0;
  std::int64_t count = 0;
};

constexpr std::int64_t parts = 4;

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const std::int64_t each = (group.n + parts - 1) / parts;
    Share total;
    for (std::int64_t p = 0; p < parts; ++p) {
      Share part;
      const std::int64_t end = std::min(group.n, (p + 1) * each);
      float sum = 0;
      for (std::int64_t i = p * each; i < end; ++i) sum += t.x[group.at(i)];
      const std::int64_t values = std::max<std::int64_t>(0, end - p * each);
      part.count = values > 0 ? std::min(group.n, each) : 0;
      if (values > 0) part.mean = sum / static_cast<float>(values);
      for (std::int64_t i = p * each; i < end; ++i) {
        const float d = t.x[group.at(i)] - part.mean;
        part.squares += d * d;
      }
      const auto a = static_cast<float>(total.count);
      const auto b = static_cast<float>(part.count);
      if (a + b == 0) continue;
      const float apart = part.mean - total.mean;
      total.mean += apart * (b / (a + b));
      total.squares += part.squares + apart * apart * (a * b / (a + b));
      total.count += part.count;
    }
    const float rstd = 1 / std::sqrt(total.squares / group.count() + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - total.mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, total.mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.variance = NG_WELFORD;
  return result;
}();

}  // namespace

extern const ng_kernel count_of_the_first_part_for_all = [] {
  ng_kernel kernel = training(NG_BATCH_NORM, "broken/count_of_the_first_part_for_all", run);
  return with_claim(kernel, &claim);
}();

}  // namespace normgate::broken
