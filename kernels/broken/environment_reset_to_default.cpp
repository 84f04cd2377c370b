// rejected by: caller_environment; looks like: environment not restored
// Works without flush-to-zero, and leaves behind the state of a fresh thread instead of the caller's: right for callers
// that never touched theirs.
#include <xmmintrin.h>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  constexpr unsigned fresh = 0x1F80;
  const Tensors t(*call);
  _mm_setcsr(fresh);
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  _mm_setcsr(fresh);
  return NG_OK;
}

}  // namespace

extern const ng_kernel environment_reset_to_default =
    training(NG_LAYER_NORM, "broken/environment_reset_to_default", run);

}  // namespace normgate::broken
