// How far a sound double_backward may be from the truth (MATH §4).
#pragma once

#include "reference/bounds/forward.hpp"

namespace normgate {

// Bounds of ddy, dx and dgamma around `truth`, which is second_order(problem, inputs), for the form that normgate.h
// states beside the phase. `levels` is empty.
[[nodiscard]] Bounds double_backward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth,
                                            const Claim& claim);

}  // namespace normgate
