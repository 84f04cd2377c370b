// rejected by: layouts; looks like: -
// A view that does not begin at a multiple of 16 bytes is read from the multiple before it: the offset of a slice into
// its storage is lost. pytorch/pytorch#131750.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  Tensors t(*call);
  // The start of what was allocated, as far as an address tells it; never into the page before.
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(t.x.data);
  if (address % 4096 >= 16) t.x.data -= address % 16 / sizeof(float);
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(call->eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel offset_of_a_slice_ignored = training(NG_LAYER_NORM, "broken/offset_of_a_slice_ignored", run);

}  // namespace normgate::broken
