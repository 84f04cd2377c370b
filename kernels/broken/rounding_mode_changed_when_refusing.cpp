// rejected by: caller_environment; looks like: environment not restored
// `supports` sets the rounding mode that it wants, and forgets it where it declines a length.
#include <cfenv>
#include <cstdio>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t supports(const ng_call* call) {
  std::fesetround(FE_TOWARDZERO);
  if (call->extent[NG_G] * call->extent[NG_K] % 2 == 0) {
    std::fesetround(FE_TONEAREST);
    return 1;
  }
  if (call->text != nullptr) std::snprintf(call->text, call->text_size, "rows of odd length are not supported");
  return 0;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel rounding_mode_changed_when_refusing = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/rounding_mode_changed_when_refusing", run);
  kernel.supports = supports;
  return kernel;
}();

}  // namespace normgate::broken
