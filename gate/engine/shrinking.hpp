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

// What the shrinking of crashes and hangs may cost, for all units of a kernel together: each try may cost a worker or a
// deadline (DOOR, Workers).
struct GraveBudget {
  std::int64_t restarts = 20;
  double seconds = 30;
  [[nodiscard]] bool left() const { return restarts > 0 && seconds > 0; }
};

// `hints`: lines that the kernel failed on elsewhere (another target, another property), tried first.
[[nodiscard]] FindingRows explain_failure(const FailedUnit& failed, const RunOptions& options,
                                          std::span<const std::string> hints, GraveBudget& budget);

// For a failure that nothing explains: whether its property also fails on a line that was explained for another
// property of the kernel, and with the same diagnosis. Then the rows of that.
struct ExplainedLine {
  std::string problem;
  std::string diagnosis;
};
[[nodiscard]] std::optional<FindingRows> explain_by_another(const FailedUnit& failed, const RunOptions& options,
                                                            std::span<const ExplainedLine> lines, GraveBudget& budget);

// The rows without shrinking and diagnosis: the case as it was found.
[[nodiscard]] FindingRows plain_finding(const Property& property, const Unit& unit, const Failure& failure,
                                        const RunOptions& options);

// "", or why a kernel cannot be called with the tensors of a problem: "requires mean, which the line does not have".
[[nodiscard]] std::string tensors_amiss(const runner::KernelInfo& kernel, const Problem& problem);

// normgate replay '<line>' --kernel K --target T --property P [--plugin F], as a shell reads it.
[[nodiscard]] std::string replay_command(const std::string& line, const Unit& unit, const RunOptions& options);

}  // namespace normgate
