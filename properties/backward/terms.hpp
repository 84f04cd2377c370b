// What the identities of gradients are made of, for one group and in double: the terms g = dy·γ and d = x - mean, and
// the factors of the definition, from the truth's own statistics. Every number here errs by a few 2^-53 relative to
// itself, sums by at most count · 2^-52 of their moduli; who uses them adds that to the tolerance.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/property.hpp"

namespace normgate {

struct GroupTerms {
  std::vector<std::size_t> index;  // of the elements in the dense tensor, in order
  std::vector<double> g, d;
  double r = 0;        // 1/D
  double q = 0;        // of dx = r (g - mean g) - q d Σgd / divisor; 0 where the variance is a constant
  double divisor = 0;  // what the variance is divided by
  double variance = 0;
  double sum_g = 0, moduli_g = 0;    // Σg, Σ|g|
  double sum_gd = 0, moduli_gd = 0;  // Σgd, Σ|gd|
};

// `statistics` are one group's of a truth (not from_output). All finite, or `index` is empty.
[[nodiscard]] GroupTerms terms_of(const Case& c, const GroupTruth& statistics, std::int64_t group);

}  // namespace normgate
