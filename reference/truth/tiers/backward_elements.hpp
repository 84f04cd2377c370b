// The elements of one group, or of a part of it, in a backward phase: sums over them, dx, and what rows add to the
// gradients of the parameters; in double-double, each with a certificate, the same bits on every instruction set.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/truth/exact.hpp"
#include "reference/truth/tiers/elements.hpp"

namespace normgate::tiers {

// d is x - centre; or, from the output, (y - beta) / gamma, which is x^ itself and takes the place of d.
struct BackwardGroup {
  const float* source = nullptr;  // x, or y; contiguous, as dy is
  const float* dy = nullptr;
  std::int64_t n = 0;
  bool from_output = false;
  Certified centre;
  Along gamma{nullptr, 1};
  Along beta{nullptr, 0};  // from the output only
  bool plus_one = false;   // 1 + gamma in place of gamma
};

struct GradientSums {
  Certified g;         // Σ dy·gamma
  Certified products;  // Σ dy·gamma·d, with d = x - centre.hi
};
// Without `weighted` gamma is left out of both (but not of x^).
[[nodiscard]] GradientSums gradient_sums(const BackwardGroup& group, bool weighted);

// dx = rstd·(dy·gamma) - offset - pull·d.
struct GradientScalars {
  Certified rstd;
  Certified offset;
  Certified pull;
};
void store_gradients(const BackwardGroup& group, const GradientScalars& scalars, Exact* dx);
// Rounded to float32; returns the undecided positions as round_elements() does.
std::int64_t round_gradients(const BackwardGroup& group, const GradientScalars& scalars, float* dx,
                             std::int64_t* undecided);

// One sum per element of a row, over rows.
struct ColumnSums {
  explicit ColumnSums(std::int64_t n);
  void reset();  // to 0
  std::vector<double> hi;
  std::vector<double> lo;
  std::vector<double> bound;  // for dbeta Σ|dy|; times a factor it is one
};
// Adds dy·d·rstd of a row, or of a part of it whose first element is in `column`, a multiple of 8, to `gamma` and dy to
// `beta` (either may be absent). `rows` is how many will be added in all.
void add_row(const BackwardGroup& group, const Certified& rstd, std::int64_t rows, std::int64_t column,
             ColumnSums* gamma, ColumnSums* beta);
// What the bounds of the columns are to be multiplied by.
[[nodiscard]] double gamma_bound_factor(std::int64_t rows);
[[nodiscard]] double beta_bound_factor(std::int64_t rows);
[[nodiscard]] inline Certified column(const ColumnSums& sums, std::int64_t c, double factor) {
  const auto at = static_cast<std::size_t>(c);
  return {sums.hi[at], sums.lo[at], sums.bound[at] * factor};
}
// `count` columns from `first` on, a multiple of 8, rounded to float32; returns the undecided positions as
// round_elements() does.
std::int64_t round_columns(const ColumnSums& sums, std::int64_t first, std::int64_t count, double factor, float* out,
                           std::int64_t* undecided);

}  // namespace normgate::tiers
