// The affine parameters as a kernel uses them, in double.
#pragma once

#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"

namespace normgate {

// What the element at `at` is multiplied by: w, or 1+w where the convention says so (rounded where w is below 2^-29);
// 1 where gamma is absent.
[[nodiscard]] inline double gamma_in_use(const Problem& problem, const Inputs& inputs, const VariantRow& row,
                                         const Shape& at) {
  if (!problem.gamma) return 1;
  const auto channel = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
  const double plus = problem.convention.gamma == GammaOffset::plus_one ? 1 : 0;
  return static_cast<double>(inputs[Role::gamma][channel]) + plus;
}

// What is added to it; 0 where beta is absent.
[[nodiscard]] inline double beta_in_use(const Problem& problem, const Inputs& inputs, const VariantRow& row,
                                        const Shape& at) {
  if (!problem.beta) return 0;
  return static_cast<double>(inputs[Role::beta][static_cast<std::size_t>(dense_index(problem.shape, row.affine, at))]);
}

}  // namespace normgate
