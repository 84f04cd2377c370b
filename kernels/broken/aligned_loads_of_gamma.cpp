// rejected by: alignments; looks like: misaligned access
// x is looked at before aligned vectors of 16 bytes are loaded; gamma is taken to stand as x does.
// flashinfer-ai/flashinfer#634, for a parameter.
#include <xmmintrin.h>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / group.count() + eps);
    std::int64_t i = 0;
    const bool whole = group.n % 4 == 0 && call->extent[NG_S] == 1 && t.gamma.present() &&
                       reinterpret_cast<std::uintptr_t>(t.x.data) % 16 == 0;
    if (whole)
      for (; i + 4 <= group.n; i += 4) {
        const __m128 gamma = _mm_load_ps(&t.gamma[group.at(i)]);
        for (std::int64_t lane = 0; lane < 4; ++lane) {
          const At at = group.at(i + lane);
          t.y[at] = (t.x[at] - mean) * rstd * gamma[lane] + t.beta.value(at, 0);
        }
      }
    for (; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel aligned_loads_of_gamma = training(NG_LAYER_NORM, "broken/aligned_loads_of_gamma", run);

}  // namespace normgate::broken
