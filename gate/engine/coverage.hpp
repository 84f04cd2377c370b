// What the plans of a run cover together: each kernel and phase over all properties that apply to it.
#pragma once

#include <string>
#include <vector>

#include "gate/engine/run.hpp"
#include "properties/generators/coverage.hpp"

namespace normgate {

struct PlanCoverage {
  std::string kernel;
  std::string phase;
  std::string convention;     // the kernel's first, which gets the whole plan
  std::int64_t problems = 0;  // planned for it
  std::vector<CoverageRow> rows;
};

// Of the kernels, phases and properties that the options select; a plan is the same on every target. Nothing is run.
[[nodiscard]] std::vector<PlanCoverage> plan_coverage(const Gate& gate, const RunOptions& options);

}  // namespace normgate
