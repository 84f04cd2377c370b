// How far the merged statistics of a sound kernel may be from the truth.
#pragma once

#include "reference/bounds/forward.hpp"

namespace normgate {

// Of merge_statistics; `truth` is merged_statistics().
[[nodiscard]] Bounds merge_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim);

// How far the statistics of a union move if those of its parts, with counts n_p, are off: by at most e_p in the mean
// and f_p in the variance.
//
//   |Δmean| <= Σ n_p e_p / n. With d_p = m_p - mean, Σ n_p d_p = 0, the variance Σ n_p (v_p + d_p²) / n moves by at
//   most Σ n_p (f_p + 2 |d_p| e_p + e_p²) / n: the square of m_p - mean moves by e_p - Δmean, whose products with Δmean
//   sum to 0, and Σ n_p (e_p - Δmean)² <= Σ n_p e_p².
struct Moved {
  double mean = 0;
  double variance = 0;
};
struct PartError {
  double count = 0;
  double deviation = 0;  // d_p of the exact parts
  double mean = 0;       // e_p
  double variance = 0;   // f_p
};
[[nodiscard]] Moved moved_by(const std::vector<PartError>& parts);

}  // namespace normgate
