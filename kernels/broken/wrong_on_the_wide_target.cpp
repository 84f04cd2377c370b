// rejected by: accuracy; looks like: tail left out of the statistics
// The path for wide vectors leaves the tail out of the statistics; the one for narrow vectors is right.
// Wrong only on the target "wide": a machine that is tried on the other one sees nothing.
#include <cstdlib>
#include <cstring>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const char* const target = std::getenv("NORMGATE_MUSEUM_TARGET");
  const bool wide = target != nullptr && std::strcmp(target, "wide") == 0;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const std::int64_t end = wide && group.n >= 8 ? group.n / 8 * 8 : group.n;
    float sum = 0;
    for (std::int64_t i = 0; i < end; ++i) sum += t.x[group.at(i)];
    const float mean = sum / static_cast<float>(end);
    float squares = 0;
    for (std::int64_t i = 0; i < end; ++i) {
      const float d = t.x[group.at(i)] - mean;
      squares += d * d;
    }
    put_y(t, group, mean, 1 / std::sqrt(squares / static_cast<float>(end) + static_cast<float>(call->eps)));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel wrong_on_the_wide_target = training(NG_LAYER_NORM, "broken/wrong_on_the_wide_target", run);

}  // namespace normgate::broken
