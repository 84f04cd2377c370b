// How far a sound kernel may be from the truth: rigorous bounds from claim and input, per output element (MATH §4).
#pragma once

#include <vector>

#include "reference/problem/claim.hpp"
#include "reference/problem/data.hpp"
#include "reference/truth/forward.hpp"

namespace normgate {

// Systematic levels of one group of y against its own deterministic bounds.
struct GroupLevels {
  double gain_bound = 0;    // on |Σ e·γx̂ / Σ (γx̂)²|; infinite: not judged
  double offset_bound = 0;  // on |Σ e / n|
};

struct Bounds {
  PerRole<std::vector<double>> tolerance;  // by role and element; infinite: not judged
  PerRole<std::vector<double>> scale;      // by role and element: the row scale of MATH §3, for row ulps
  std::vector<GroupLevels> levels;         // by group
  std::vector<bool> in_range;              // by group: the "squares fit" claim covers it
  // By group, if a cotangent was given: how far Σ dy·y^ may be from Σ dy·y, without the rounding of the sum.
  std::vector<double> along;
};

[[nodiscard]] Bounds forward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth,
                                    const Claim& claim);
// The same with Bounds::along, of `cotangent`, which has the elements of y and is finite.
[[nodiscard]] Bounds forward_bounds_along(const Problem& problem, const Inputs& inputs, const Truth& truth,
                                          const Claim& claim, const std::vector<float>& cotangent);

}  // namespace normgate
