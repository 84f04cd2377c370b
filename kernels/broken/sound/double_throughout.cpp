// sound: everything in double, declared; only y is rounded
// What a reference in C often does.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const double eps = call->eps;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const auto n = static_cast<double>(group.n);
    double sum = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum += static_cast<double>(t.x[group.at(i)]);
    const double mean = sum / n;
    double squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) {
      const double d = static_cast<double>(t.x[group.at(i)]) - mean;
      squares += d * d;
    }
    const double rstd = 1 / std::sqrt(squares / n + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const auto gamma = static_cast<double>(t.gamma.value(at, 1));
      const auto beta = static_cast<double>(t.beta.value(at, 0));
      t.y[at] = static_cast<float>((static_cast<double>(t.x[at]) - mean) * rstd * gamma + beta);
    }
    t.mean.put(group.first, static_cast<float>(mean));
    t.stat.put(group.first, static_cast<float>(rstd));
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

extern const ng_kernel double_throughout = with_claim(training(NG_LAYER_NORM, "sound/double_throughout", run), &claim);

}  // namespace normgate::broken
