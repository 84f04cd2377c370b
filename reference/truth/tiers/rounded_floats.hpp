// Every output of a problem correctly rounded to float32, at the speed of the fast tier: what its certificates decide
// is rounded block by block where it is computed, and no Exact is stored.
#pragma once

#include "reference/truth/tiers/correctly_rounded.hpp"

namespace normgate::tiers {

struct RoundedFloats {
  PerRole<std::vector<float>> out;  // by role, as Truth::out
  TierCounts counts;
  std::int64_t precise_test = 0;  // among those of the fast tier: not decided by the first, vectorized test
};

// The values and counts of correctly_rounded() in Format::float32. The memory of `result` is used again.
void correctly_rounded_floats(const Problem& problem, const Inputs& inputs, SavedUse use, RoundedFloats& result);

}  // namespace normgate::tiers
