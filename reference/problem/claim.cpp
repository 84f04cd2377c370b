// The depth of a sum: how many rounded additions lie between a term and the result.
#include "reference/problem/claim.hpp"

#include <algorithm>
#include <bit>

namespace normgate {

namespace {

// ceil(a / b) for a >= 1, b >= 1, without overflow.
std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a - 1) / b + 1; }

std::int64_t log2_up(std::int64_t a) {
  return a <= 1 ? 0 : static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(a - 1)));
}

// `lanes` partial sums, each begun at zero, then a tree over the lanes.
std::int64_t interleaved(std::int64_t n, std::int64_t lanes) { return quotient_up(n, lanes) + log2_up(lanes); }

}  // namespace

// Whatever the order, a sum of n terms has n-1 additions that can round (adding to a zero start or to an empty lane is
// exact), so no path is longer: short sums are capped there.
std::int64_t depth(const Sum& sum, std::int64_t n) {
  if (n <= 1) return 0;
  const std::int64_t lanes = std::max<std::int64_t>(sum.lanes, 1);
  const std::int64_t block = std::max<std::int64_t>(sum.block, 1);
  const std::int64_t blocks = quotient_up(n, block);
  std::int64_t path = n - 1;
  switch (sum.order) {
    case SumOrder::sequential:
      break;
    case SumOrder::interleaved:
      path = interleaved(n, lanes);
      break;
    case SumOrder::pairwise:
      path = interleaved(std::min(n, block), lanes) + log2_up(blocks);
      break;
    case SumOrder::blocked:
      path = interleaved(std::min(n, block), lanes) + blocks;
      break;
  }
  return std::min(path, n - 1);
}

}  // namespace normgate
