// What the forward phases, those of statistics and double_backward are by definition.
#pragma once

#include <vector>

#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/exact.hpp"

namespace normgate {

// What one group's definition gives, in the order of group_index().
struct GroupTruth {
  Exact mean;      // of x; 0 for rows that are not centred; given in inference
  Exact variance;  // the normalizing variance (mean square for rows that are not centred); given in inference unless
                   // the reciprocal is given, then NaN
  Exact rstd;      // 1/D
};

// Outputs by role, dense and row-major over the role's axes: y; mean and stat if the problem saves them; running_mean,
// running_var, running_weight after the step if it has them. In `statistics` and merge_statistics: mean and stat. In
// double_backward: ddy, dx, and dgamma if the problem has gamma.
struct Truth {
  PerRole<std::vector<Exact>> out;
  std::vector<GroupTruth> groups;
};

// Which outputs are asked for: y costs most of the time, and what judges statistics alone does not need it.
enum class Wanted : std::int32_t { everything, statistics };

// `problem` must pass check(); `inputs` are what make_inputs gives, or others of the same sizes. By the fast tier
// (tiers/fast.hpp) where it covers the problem, else by the definition at 100 digits; the bounds tell how exact it is.
[[nodiscard]] Truth forward_truth(const Problem& problem, const Inputs& inputs, Wanted wanted = Wanted::everything);
// The definition itself, computed with 100 decimal digits: bounds are at most 2^-104 of a value and 2^-254 of its
// terms.
[[nodiscard]] Truth definition_forward(const Problem& problem, const Inputs& inputs,
                                       Wanted wanted = Wanted::everything);

}  // namespace normgate
