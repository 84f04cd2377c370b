// rejected by: alignments; looks like: -
// A path for x and y at the same place in a 64-byte line takes their places modulo 32 for the same: where they are half
// a line apart, the second half of each whole line is written for the first.
// Wrong only where x and y stand exactly 32 bytes apart in their lines. The kind of flashinfer-ai/flashinfer#634 (a
// vector width that the place does not allow).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::uintptr_t line_place(const float* data) { return reinterpret_cast<std::uintptr_t>(data) % 64; }

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    put_normalized(t, group, static_cast<float>(call->eps));
    if (group.n == 0 || line_place(t.x.data) == line_place(t.y.data) ||
        line_place(t.x.data) % 32 != line_place(t.y.data) % 32)
      continue;
    for (std::int64_t i = 0; i + 16 <= group.n; i += 16)
      for (std::int64_t lane = 0; lane < 8; ++lane) t.y[group.at(i + 8 + lane)] = t.y[group.at(i + lane)];
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel alignment_compared_modulo_32 =
    training(NG_LAYER_NORM, "broken/alignment_compared_modulo_32", run);

}  // namespace normgate::broken
