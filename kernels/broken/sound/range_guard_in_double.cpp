// sound: rows whose squares do not fit into float32 are computed in double
// More exact there than it claims; since the guard does not scale with x, powers of two are not promised to leave the
// bits alone.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

void normalize_in_double(const Tensors& t, const Group& group, double eps) {
  const double n = static_cast<double>(group.n);
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
    const double xhat = (static_cast<double>(t.x[at]) - mean) * rstd;
    t.y[at] =
        static_cast<float>(xhat * static_cast<double>(t.gamma.value(at, 1)) + static_cast<double>(t.beta.value(at, 0)));
  }
  t.mean.put(group.first, static_cast<float>(mean));
  t.stat.put(group.first, static_cast<float>(rstd));
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    float largest = 0;
    for (std::int64_t i = 0; i < group.n; ++i) largest = std::fmax(largest, std::fabs(t.x[group.at(i)]));
    if (largest > 0x1p40F || largest < 0x1p-40F)
      normalize_in_double(t, group, call->eps);
    else
      put_normalized(t, group, static_cast<float>(call->eps));
  }
  return NG_OK;
}

constexpr ng_claim claim = promising(NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT | NG_DIVIDES_BY_N);

}  // namespace

extern const ng_kernel range_guard_in_double =
    with_claim(training(NG_LAYER_NORM, "sound/range_guard_in_double", run), &claim);

}  // namespace normgate::broken
