// The other witness of the gradients: what the forward definition does along a direction, J v, by differences at 100
// digits. Knows no formula of a derivative; its cost is linear in the elements, whatever their number.
#pragma once

#include <vector>

#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/exact.hpp"

namespace normgate {

// A direction in x, gamma and beta, dense and row-major; what is empty does not move.
using Direction = PerRole<std::vector<double>>;

struct Tangent {
  std::vector<Exact> y;  // d/dt y(x + t v_x, gamma + t v_gamma, beta + t v_beta) at t = 0, by element
  // By group: the forward has no derivative there (v = 0 with eps outside the root or 0, v = eps as a floor, or the
  // floor between the steps); y is not to be compared.
  std::vector<bool> kink;
};

// `problem` is of a backward phase, with x among its inputs (not from_output); inputs and direction are finite. In
// training the statistics are those of x and move with it; in inference they are the given ones and stay.
[[nodiscard]] Tangent tangent(const Problem& problem, const Inputs& inputs, const Direction& direction);

}  // namespace normgate
