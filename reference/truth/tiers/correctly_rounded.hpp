// Every output of a problem correctly rounded: to nearest, ties to even, directly to a format, and always decided.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/problem/claim.hpp"
#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/tiers/rounding.hpp"

namespace normgate::tiers {

// How many elements each tier decided.
struct TierCounts {
  std::int64_t special = 0;     // NaN or infinite by the definition: that is the value, no tier is needed
  std::int64_t fast = 0;        // the fast tier's enclosure rounds to one value
  std::int64_t definition = 0;  // the fast tier does not cover the problem, and 100 digits decided
  std::int64_t intervals = 0;   // a sum of several roots, by enclosures of 512 bits
  std::int64_t exact = 0;       // by algebra
  friend bool operator==(const TierCounts&, const TierCounts&) = default;
};

struct Rounded {
  // By role, as Truth::out: values of the format, infinite from its overflow threshold on. NaN and infinities of the
  // definition, evaluated in extended reals, are themselves.
  PerRole<std::vector<double>> out;
  TierCounts counts;
};

// Of the outputs that the problem writes. `problem` must pass check(); `use` is that of backward_truth(), and that of a
// problem with from_output is from_output, whatever is asked for.
[[nodiscard]] Rounded correctly_rounded(const Problem& problem, const Inputs& inputs, SavedUse use, Format format);

}  // namespace normgate::tiers
