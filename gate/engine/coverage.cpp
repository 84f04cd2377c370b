// Collects the plans of all properties for one kernel and phase.
#include "gate/engine/coverage.hpp"

#include <algorithm>

#include "gate/engine/names.hpp"

namespace normgate {
namespace {

PlanCoverage coverage_of_phase(const runner::KernelInfo& kernel, Phase phase, const RunOptions& options) {
  const Convention& first = kernel.conventions.front();
  std::vector<Problem> problems;
  CoverageRow conventions{.name = "convention", .possible = 0, .covered = 0, .missing = {}};
  for (const Convention& convention : kernel.conventions) {
    const Subject subject{row_of(*kernel.variant), phase, kernel, convention};
    std::int64_t planned = 0;
    bool applies = false;
    for (const Property* property : options.all_properties) {
      if (!selected(options.properties, property->name) || !property->applies(subject)) continue;
      applies = true;
      std::vector<Problem> plan = property->plan(subject, options.effort, options.seed);
      planned += static_cast<std::int64_t>(plan.size());
      if (convention == first) std::move(plan.begin(), plan.end(), std::back_inserter(problems));
    }
    // To a convention that differs from an earlier one in nothing that this phase sees no property applies.
    if (!applies) continue;
    ++conventions.possible;
    if (planned > 0)
      ++conventions.covered;
    else
      conventions.missing.push_back(print(convention));
  }
  const Subject subject{row_of(*kernel.variant), phase, kernel, first};
  PlanCoverage coverage;
  coverage.kernel = kernel.name;
  coverage.phase = std::string(name_of(phase));
  coverage.convention = print(first);
  coverage.problems = static_cast<std::int64_t>(problems.size());
  coverage.rows = coverage_of(subject, options.effort, problems);
  coverage.rows.push_back(std::move(conventions));
  return coverage;
}

}  // namespace

std::vector<PlanCoverage> plan_coverage(const Gate& gate, const RunOptions& options) {
  std::vector<PlanCoverage> result;
  for (const auto& plugin : gate.plugins)
    for (const runner::KernelInfo& kernel : plugin->kernels) {
      if (!kernel.variant || kernel.conventions.empty() || !selected(options.kernels, kernel.name)) continue;
      for (const Phase phase : kernel.phases)
        // The dimensions are about calls that write an element for each of x.
        if (selected(options.phases, name_of(phase)) && !is_statistics(phase) && phase != Phase::double_backward)
          result.push_back(coverage_of_phase(kernel, phase, options));
    }
  return result;
}

}  // namespace normgate
