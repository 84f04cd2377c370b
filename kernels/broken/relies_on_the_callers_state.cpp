// rejected by: caller_environment; looks like: -
// Promises that the caller's flush-to-zero changes nothing, and leaves the state as it is given: subnormal numbers are
// lost in a process that some other library has switched.
// After marian-nmt/marian-dev PR#689 (what -ffast-math does to a whole process).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

constexpr ng_claim claim = promising(NG_CALLER_STATE_INVARIANT);

}  // namespace

extern const ng_kernel relies_on_the_callers_state =
    with_claim(training(NG_LAYER_NORM, "broken/relies_on_the_callers_state", run), &claim);

}  // namespace normgate::broken
