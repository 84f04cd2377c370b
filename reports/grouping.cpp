#include "reports/grouping.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace normgate {
namespace {

// Blocks never join what failed with what crashed or was mistrusted: those have different remedies.
bool same_block(const Unit& a, const Unit& b) {
  if (verdict_of(a) != verdict_of(b)) return false;
  const std::string diagnosis = a.finding ? a.finding->diagnosis : "";
  if (diagnosis != (b.finding ? b.finding->diagnosis : "")) return false;
  if (!diagnosis.empty()) return true;
  return std::tie(a.property, a.phase, a.convention) == std::tie(b.property, b.phase, b.convention);
}

bool same_question(const Unit& a, const Unit& b) {
  return std::tie(a.property, a.phase, a.convention, a.dtype) == std::tie(b.property, b.phase, b.convention, b.dtype);
}

FindingRows rows_of(const Unit& unit) {
  if (unit.finding) return *unit.finding;
  FindingRows rows;
  rows.says = unit.reason.empty() ? fmt::format("The unit is {}; no reason was given.", name_of(verdict_of(unit)))
                                  : unit.reason;
  rows.problem = unit.worst.problem.empty() ? "(none was judged)" : unit.worst.problem;
  rows.again =
      fmt::format("normgate check --kernel {} --target {} --property {}", unit.kernel, unit.target, unit.property);
  if (!unit.plugin.empty()) rows.again += fmt::format(" --plugin {}", unit.plugin);
  return rows;
}

// How `unit` is named among the properties that fail beside `first`.
std::string label_beside(const Unit& unit, const Unit& first) {
  std::vector<std::string> differs;
  if (unit.phase != first.phase) differs.push_back(unit.phase);
  if (unit.convention != first.convention) differs.push_back(unit.convention);
  if (unit.dtype != first.dtype) differs.push_back(unit.dtype);
  return differs.empty() ? unit.property : fmt::format("{} ({})", unit.property, fmt::join(differs, ", "));
}

void add_once(std::vector<std::string>& list, const std::string& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

FindingBlock block_of(const std::vector<const Unit*>& units) {
  const Unit& first = *units.front();
  const Unit* shown = &first;
  for (const Unit* unit : units) {
    if (same_question(*unit, first) && unit->finding_index < shown->finding_index) shown = unit;
  }
  FindingBlock block{.kernel = shown->kernel,
                     .plugin = shown->plugin,
                     .targets = {},
                     .property = shown->property,
                     .verdict = verdict_of(*shown),
                     .rows = rows_of(*shown),
                     .also_fails = {},
                     .convention = shown->convention,
                     .phase = shown->phase};
  for (const Unit* unit : units) {
    add_once(block.targets, unit->target);
    if (!same_question(*unit, first)) add_once(block.also_fails, label_beside(*unit, first));
  }
  return block;
}

}  // namespace

Verdict verdict_of(const Unit& unit) {
  return unit.verdict == Verdict::passed && unit.cases <= 0 ? Verdict::mistrusted : unit.verdict;
}

bool fails(Verdict verdict) {
  return verdict == Verdict::failed || verdict == Verdict::crashed || verdict == Verdict::timed_out ||
         verdict == Verdict::mistrusted;
}

bool is_tested(Verdict verdict) { return verdict != Verdict::refused && verdict != Verdict::skipped; }

std::vector<FindingBlocks> group_findings(const Record& record, std::size_t most_per_kernel) {
  struct Kernel {
    const Unit* any;
    std::vector<std::vector<const Unit*>> blocks;
  };
  std::vector<Kernel> kernels;
  for (const Unit& unit : record.units) {
    if (!fails(verdict_of(unit))) continue;
    auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& known) {
      return known.any->kernel == unit.kernel && known.any->plugin == unit.plugin;
    });
    if (kernel == kernels.end()) kernel = kernels.insert(kernels.end(), Kernel{&unit, {}});
    auto block = std::find_if(kernel->blocks.begin(), kernel->blocks.end(),
                              [&](const auto& units) { return same_block(*units.front(), unit); });
    if (block == kernel->blocks.end()) block = kernel->blocks.emplace(kernel->blocks.end());
    block->push_back(&unit);
  }
  std::vector<FindingBlocks> result;
  for (const Kernel& kernel : kernels) {
    FindingBlocks blocks{.kernel = kernel.any->kernel, .plugin = kernel.any->plugin, .shown = {}, .hidden = 0};
    for (const auto& units : kernel.blocks) {
      if (blocks.shown.size() < most_per_kernel) {
        blocks.shown.push_back(block_of(units));
      } else {
        ++blocks.hidden;
      }
    }
    result.push_back(std::move(blocks));
  }
  return result;
}

std::string display_name(const Record& record, const std::string& plugin, const std::string& kernel) {
  const bool shared = std::any_of(record.units.begin(), record.units.end(),
                                  [&](const Unit& unit) { return unit.kernel == kernel && unit.plugin != plugin; });
  return shared ? fmt::format("{}:{}", std::filesystem::path(plugin).stem().string(), kernel) : kernel;
}

}  // namespace normgate
