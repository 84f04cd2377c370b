// Random problems of every phase, row, use and convention for the truth's own tiers. The plans of properties are for
// kernels: these go to the ends of the range, too.
#pragma once

#include "reference/problem/claim.hpp"
#include "reference/problem/draw.hpp"
#include "reference/problem/problem.hpp"

namespace normgate::proof {

// Groups of 1 to 70 elements for the most part.
[[nodiscard]] Shape draw_shape(Draw& draw, Variant variant);
// Of finite data.
[[nodiscard]] Problem draw_problem(Draw& draw, Phase phase);
// Some tensors of some problems with what the profiles do not reach. Returns whether any is.
bool spoil_some(Draw& draw, Inputs& inputs);
// NaN, infinities and zeros in places where no profile has them, in one tensor of three.
void sprinkle(Draw& draw, Inputs& inputs);
// A use that makes sense for the problem.
[[nodiscard]] SavedUse draw_use(Draw& draw, const Problem& problem);

// Any problem that a line says in full, its spoilt tensors included: one in twelve of the profile special, one in
// eight with NaN, infinities and zeros where no profile has them, one in sixteen with groups of up to some 700 elements
// and one in 1024 with some 20000.
[[nodiscard]] Problem draw_any_problem(Draw& draw);

}  // namespace normgate::proof
