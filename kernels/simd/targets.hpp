// Which of the compiled instruction sets runs: the one that NORMGATE_SIMD_TARGET names (AVX2, SSE4, …), else the best
// that the CPU has. The choice is private to this plugin; Highway's own is process-wide.
#pragma once

#include <hwy/targets.h>

#include "kernels/abi/normgate.h"

namespace normgate::simd {

// nullptr past the end; best first, the same whatever the environment.
const ng_target* compiled_target(std::int32_t index);
std::int32_t compiled_target_count();

// Chosen once, when first asked for.
const hwy::ChosenTarget& chosen_target();
// "" or why nothing may run: the environment names a target that is not compiled, or not on this CPU.
const char* target_refusal();

}  // namespace normgate::simd

// The function that HWY_EXPORT has listed, for the chosen target.
#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)
#define NORMGATE_DISPATCH(FUNCTION) (&HWY_STATIC_DISPATCH(FUNCTION))
#else
#define NORMGATE_DISPATCH(FUNCTION) (HWY_DISPATCH_TABLE(FUNCTION)[::normgate::simd::chosen_target().GetIndex()])
#endif
