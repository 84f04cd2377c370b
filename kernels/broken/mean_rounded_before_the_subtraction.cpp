// rejected by: accuracy; looks like: float32 accumulator, or float32 statistics
// Claims statistics in double; the mean is summed in double, rounded to float32 and then subtracted, which is a mean in
// float32 as seen from x.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    double sum = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum += static_cast<double>(t.x[group.at(i)]);
    const auto count = static_cast<double>(group.n);
    const auto mean = static_cast<float>(sum / count);
    double squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const double d = static_cast<double>(t.x[group.at(i)]) - static_cast<double>(mean);
      squares += d * d;
    }
    const double factor = 1 / std::sqrt(squares / count + static_cast<double>(eps));
    const auto rstd = static_cast<float>(factor);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const double d = static_cast<double>(t.x[at]) - static_cast<double>(mean);
      t.y[at] = static_cast<float>(d * factor * static_cast<double>(t.gamma.value(at, 1)) +
                                   static_cast<double>(t.beta.value(at, 0)));
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

constexpr ng_claim claim = [] {
  ng_claim result = promising(0);
  result.accumulator = NG_TYPE_FLOAT64;
  result.statistics = NG_TYPE_FLOAT64;
  return result;
}();

}  // namespace

extern const ng_kernel mean_rounded_before_the_subtraction =
    with_claim(training(NG_LAYER_NORM, "broken/mean_rounded_before_the_subtraction", run), &claim);

}  // namespace normgate::broken
