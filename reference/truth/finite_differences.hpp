// The witness of the gradients: differences of the forward definition, at 160 digits. Knows no formula of a derivative.
#pragma once

#include <string_view>
#include <vector>

#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/exact.hpp"

namespace normgate {

enum class DifferenceOrder : std::int32_t { second = 2, fourth = 4 };

struct Differences {
  // dx, dgamma, dbeta as in backward_truth; `bound` is 10^-50 of the row scale (plus what rounding to hi + lo takes),
  // and for dx 1000 t^order of it besides where the step t = 10^step_exponent is that large. The scale of dx is r
  // (max|g| + max|x^| |mean(g x^)|).
  PerRole<std::vector<Exact>> out;
  // By group: the forward has no derivative there (v = 0 with eps outside the root or 0, v = eps as a floor, or the
  // floor between the steps); dx is not to be compared.
  std::vector<bool> kink;
};

// `problem` is of a backward phase, with x among its inputs (not from_output) and finite inputs; groups of at most 64
// elements are what it is for (its cost is quadratic). The step is 10^step_exponent times the deviation: D, or sqrt(v)
// for eps outside the root, whose kink at v = 0 must stay far.
[[nodiscard]] Differences finite_differences(const Problem& problem, const Inputs& inputs,
                                             DifferenceOrder order = DifferenceOrder::fourth, int step_exponent = -25);

// Differences come near the closed gradient as fast as theory says, which they would not if either were wrong.
struct Convergence {
  std::string_view method;  // "central", "fourth order", "Richardson"
  int order = 0;            // that theory gives
  // Steps in units of the deviation, descending, and the largest error of dx in each, relative to the largest |dx|.
  std::vector<double> steps;
  std::vector<double> errors;
  double observed = 0;  // decadic logarithm of the last two errors' quotient: their steps are a decade apart
};

// Order 2, order 4, and order 6 by one step of Richardson's extrapolation of order 4, at 160 digits. `problem` is of
// backward_training with finite inputs, a variance and no kink in any group, and its groups are small: what
// finite_differences() asks for. Rows whose dx is 0 throughout show no order (NaN).
[[nodiscard]] std::vector<Convergence> convergence(const Problem& problem, const Inputs& inputs);

}  // namespace normgate
