// From the failing case that is reported to the rows of its finding: shrunk, diagnosed, with the command that repeats
// it.
#pragma once

#include "gate/engine/run.hpp"

namespace normgate {

// What a finding is made from.
struct FailedUnit {
  const Property& property;
  Subject subject;
  Station& station;
  const Unit& unit;
  const Failure& failure;
};

// `hint`: the shrunk line of the same kernel and property on another target, tried first; may be empty.
[[nodiscard]] FindingRows explain_failure(const FailedUnit& failed, const RunOptions& options, const std::string& hint);

// The rows without shrinking and diagnosis: the case as it was found.
[[nodiscard]] FindingRows plain_finding(const Property& property, const Unit& unit, const Failure& failure,
                                        const RunOptions& options);

// normgate replay '<line>' --kernel K --target T --property P [--plugin F], as a shell reads it.
[[nodiscard]] std::string replay_command(const std::string& line, const Unit& unit, const RunOptions& options);

}  // namespace normgate
