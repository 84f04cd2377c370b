// The record for people: header, verdicts per kernel and target, failures, what was not claimed, verdict, one last
// line.
#pragma once

#include <string>

#include "reports/record.hpp"

namespace normgate {

struct TextOptions {
  bool colour = false;  // for a terminal, and only where NO_COLOR is not set
  bool quiet = false;   // failures, verdict and the last line only
};

// Rounded down: a share of 0.9999997 is inside the bound and must not read as 1.
[[nodiscard]] std::string share_text(double share);

// Deterministic but for the seconds, which stand in the last line alone.
[[nodiscard]] std::string write_text(const Record& record, const TextOptions& options);

}  // namespace normgate
