// The elements of one group of a forward phase: y = gamma·(x - centre)·rstd + beta in double-double, each with a
// certificate; the same bits on every instruction set.
#pragma once

#include <cstdint>

#include "reference/truth/exact.hpp"
#include "reference/truth/tiers/scalars.hpp"

namespace normgate::tiers {

// One value per element, or one for the whole group.
struct Along {
  const float* values = nullptr;
  float value = 0;
};

struct ForwardGroup {
  const float* x = nullptr;  // contiguous
  std::int64_t n = 0;
  Certified centre;  // 0 where the row is not centred
  Certified rstd;    // 1/D
  Along gamma{nullptr, 1};
  Along beta{nullptr, 0};
  bool plus_one = false;  // 1 + gamma in place of gamma
};

// Each element and its bound.
void store_elements(const ForwardGroup& group, Exact* y);
// Each element rounded to float32. Returns the number of elements that the certificate does not decide, and their
// positions in `undecided`, which has room for n.
std::int64_t round_elements(const ForwardGroup& group, float* y, std::int64_t* undecided);

}  // namespace normgate::tiers
