// How far sound gradients may be from the truth: rigorous bounds from claim and input, per output element (MATH §4,
// §7).
#pragma once

#include "reference/bounds/forward.hpp"
#include "reference/truth/backward.hpp"

namespace normgate {

// Bounds of dx, dgamma and dbeta around `truth`, which is backward_truth(problem, inputs, use), for a kernel that
// computes as `use` says. `levels` is empty.
[[nodiscard]] Bounds backward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, SavedUse use,
                                     const Claim& claim);

}  // namespace normgate
