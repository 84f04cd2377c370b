// What the fast tier's phases share: statistics that a group is given or handed, and values as they leave.
#pragma once

#include <optional>

#include "reference/problem/data.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/exact.hpp"
#include "reference/truth/tiers/statistics.hpp"

namespace normgate::tiers {

// The elements that are worked on at a time where results do not stay where they are computed.
inline constexpr std::int64_t block = 1024;

inline Exact exact_of(const Certified& a) {
  return std::isfinite(a.hi) ? Exact{a.hi, a.lo, a.error} : Exact{a.hi, 0, 0};
}

inline Certified exactly(const std::vector<float>& values, std::int64_t at) {
  return exactly(static_cast<double>(values[static_cast<std::size_t>(at)]));
}

// The statistics that group q is given or handed.
[[nodiscard]] std::optional<Statistics> given_statistics(const Problem& problem, const Inputs& inputs,
                                                         const Groups& groups, std::int64_t q);

}  // namespace normgate::tiers
