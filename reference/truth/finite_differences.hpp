// The witness of the gradients: differences of the forward definition, at 100 digits. Shares no code with the closed
// form.
#pragma once

#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/exact.hpp"

namespace normgate {

enum class DifferenceOrder : std::int32_t { second = 2, fourth = 4 };

struct Differences {
  PerRole<std::vector<Exact>> out;  // dx, dgamma, dbeta as in backward_truth; `bound` is 10^-50 of the row scale
  std::vector<bool> kink;           // by group: the forward has no derivative there, dx is not to be compared
};

// `problem` is of a backward phase, with x among its inputs (not from_output) and finite inputs; groups of at most 64
// elements are what it is for (its cost is quadratic). The step is 10^step_exponent times the deviation sqrt(v + eps).
[[nodiscard]] Differences finite_differences(const Problem& problem, const Inputs& inputs,
                                             DifferenceOrder order = DifferenceOrder::fourth, int step_exponent = -25);

}  // namespace normgate
