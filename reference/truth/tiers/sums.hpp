// Certified sums over the contiguous floats of one group; the same bits on every instruction set.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/truth/tiers/scalars.hpp"

namespace normgate::tiers {

[[nodiscard]] bool all_finite(const float* x, std::int64_t n);
[[nodiscard]] inline bool all_finite(const std::vector<float>& x) {
  return all_finite(x.data(), static_cast<std::int64_t>(x.size()));
}

// Σx in plain double: a centre to sum around.
[[nodiscard]] double rough_sum(const float* x, std::int64_t n);

struct Moments {
  Certified sum;      // Σ(x - centre)
  Certified squares;  // Σ(x - centre)²
};
[[nodiscard]] Moments moments(const float* x, std::int64_t n, double centre);

// Σx².
[[nodiscard]] Certified sum_of_squares(const float* x, std::int64_t n);

}  // namespace normgate::tiers
