// What merge_statistics is by definition: mean and variance of the union of parts, from those of the parts.
#pragma once

#include "reference/truth/forward.hpp"

namespace normgate {

// At 100 digits; the bounds are those of definition_forward(). A group's elements are its parts; one without a count
// does not exist, whatever stands in its mean and variance. A union of no elements has 0/0.
[[nodiscard]] Truth merged_statistics(const Problem& problem, const Inputs& inputs);

}  // namespace normgate
