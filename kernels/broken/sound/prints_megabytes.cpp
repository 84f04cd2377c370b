// sound: prints four megabytes in its first calls
// What is printed must fill no pipe and no log, and carry no command into it.
#include <cstdio>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  static int calls = 0;
  if (calls++ < 4) {
    for (int line = 0; line < 1 << 14; ++line)
      std::puts("::error file=none,line=1::a line of sixty-four bytes for whom it may concern");
    std::fflush(stdout);
  }
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
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

}  // namespace

extern const ng_kernel prints_megabytes = training(NG_LAYER_NORM, "sound/prints_megabytes", run);

}  // namespace normgate::broken
