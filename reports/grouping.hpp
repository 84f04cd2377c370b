// What the findings of a record have in common: one block per kernel and diagnosis, so that a bug with one cause is
// read once and not once per target and property.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record.hpp"

namespace normgate {

struct FindingBlock {
  std::string kernel;
  std::string plugin;
  std::vector<std::string> targets;  // where this was found, in the order of the record
  std::string property;              // of the unit whose rows are shown
  Verdict verdict = Verdict::failed;
  FindingRows rows;
  std::vector<std::string> also_fails;  // "scaling", or "accuracy (forward_inference)" if it differs in that
  std::string convention;
  std::string phase;
};

// The blocks of one kernel, in the order of the record; `hidden` more exist.
struct FindingBlocks {
  std::string kernel;
  std::string plugin;
  std::vector<FindingBlock> shown;
  std::int64_t hidden = 0;
};

// The verdict of a unit as reports tell it: a pass over no case at all is weak evidence, whoever recorded it.
[[nodiscard]] Verdict verdict_of(const Unit& unit);

// Whether a verdict fails the gate: FAILED, CRASHED, TIMED_OUT, MISTRUSTED.
[[nodiscard]] bool fails(Verdict verdict);

// Whether a verdict means that the kernel was tried: neither REFUSED nor SKIPPED.
[[nodiscard]] bool is_tested(Verdict verdict);

// Kernels with findings, in the order of the record. Units with the same diagnosis share a block; without a diagnosis,
// those with the same phase, convention, failing output and kind of placement in memory: one mistake in y fails most
// properties of y. The rows shown are those of the first property in the record, or, without a diagnosis, of the one
// that is about least; there of the case that comes first in the plan. A failing unit without rows gets them from its
// reason.
[[nodiscard]] std::vector<FindingBlocks> group_findings(const Record& record, std::size_t most_per_kernel = 5);

// How a kernel is named to people: its name, with the plugin's before it if another plugin has a kernel of that name.
[[nodiscard]] std::string display_name(const Record& record, const std::string& plugin, const std::string& kernel);

}  // namespace normgate
