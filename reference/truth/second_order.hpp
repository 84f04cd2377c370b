// What double_backward is by definition, and its witness.
#pragma once

#include "reference/truth/finite_differences.hpp"
#include "reference/truth/forward.hpp"

namespace normgate {

// ddy, dx and, if the problem has gamma, dgamma, dense and row-major; `groups` are the statistics of x. At 100 digits;
// bounds are at most 2^-104 of a value and 2^-254 of its terms. `problem` must pass check() and be a double_backward.
[[nodiscard]] Truth second_order(const Problem& problem, const Inputs& inputs);

// The same by differences of the forward definition alone, at 160 digits: knows no formula of a derivative, of
// whichever order. `bound` is 10^-45 of the largest terms; the row scale of dx is that of finite_differences() over
// another deviation. Finite inputs; for groups of at most 64 elements (its cost is quadratic).
[[nodiscard]] Differences second_differences(const Problem& problem, const Inputs& inputs);

}  // namespace normgate
