// What a list of problems covers, counted from the problems themselves: in pairs of what a kernel may get wrong
// together (a profile and a residue of the length, a residue and the optional tensors, a tensor and its layout, …).
// Only what the kernel claims counts as possible.
//
// To add a dimension: a line in `dimensions` of coverage.cpp, which says the cells that a problem is in and gives an
// example of each cell. Plans then fill it (Planner::cover), and `normgate check --dry-run --coverage` prints it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/property.hpp"

namespace normgate {

struct CoverageRow {
  std::string_view name;      // "profile, length modulo 64"
  std::int64_t possible = 0;  // cells that a problem inside the claim can be in
  std::int64_t covered = 0;   // of these
  std::vector<std::string> missing;
  bool guaranteed = true;  // at this effort; the others are printed for what they are
};

// Dimensions without a possible cell are left out.
[[nodiscard]] std::vector<CoverageRow> coverage_of(const Subject& subject, Effort effort,
                                                   std::span<const Problem> problems);

// Problems for the cells that `problems` leave out, all inside the claim, with no key yet; `takes` says which profiles
// the property judges.
[[nodiscard]] std::vector<Problem> missing_problems(const Subject& subject, Effort effort,
                                                    std::span<const Problem> problems,
                                                    const std::function<bool(Profile)>& takes);

}  // namespace normgate
