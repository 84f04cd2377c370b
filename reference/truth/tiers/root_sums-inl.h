// The sign of a sum of numbers (a + b sqrt(w)) / c, always decided. Included by .cpp files that hold such sums.
#pragma once

#include <vector>

#include "reference/truth/tiers/dyadic-inl.h"

namespace normgate::tiers {

struct Term {
  Dyadic a;
  Dyadic b;
  Dyadic c{1};  // > 0
  Dyadic w;     // >= 0
};

struct Sign {
  int sign = 0;
  bool by_intervals = false;  // an enclosure of 512 bits told it, without algebra
};

// Terms of one w and one c become one, in place; what is 0 goes.
void collect(std::vector<Term>& terms);

// The sign of the sum minus numerator / divisor, divisor > 0. Few and collected terms are faster, but any do.
[[nodiscard]] Sign sign_of_sum(const std::vector<Term>& terms, const Dyadic& numerator, const Dyadic& divisor);

}  // namespace normgate::tiers
