#include "reports/grouping.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <tuple>

namespace normgate {
namespace {

// Properties whose findings tell most about a mistake come first: of a few that fail for the same unknown reason the
// one of smallest subject heads the block. What any wrong number fails comes last. A mistake that shows in many
// properties is special to none of them: accuracy (gradients) shows it on ordinary data.
constexpr std::size_t many_properties = 4;
bool is_plainest(std::string_view property) { return property == "accuracy" || property == "gradients"; }
std::size_t breadth(std::string_view property) {
  static constexpr std::string_view narrow_first[] = {"memory",
                                                      "running_statistics",
                                                      "momentum_independence",
                                                      "inference_state",
                                                      "saved_statistics",
                                                      "epsilon",
                                                      "split_rows",
                                                      "single_value",
                                                      "gain_and_offset",
                                                      "exact_data",
                                                      "exact_gradients",
                                                      "accuracy",
                                                      "gradients",
                                                      "finite_differences",
                                                      "zero_mean_unit_variance",
                                                      "gradient_identities",
                                                      "training_and_inference",
                                                      "cotangent_linearity",
                                                      "row_independence",
                                                      "batch_mates",
                                                      "layouts",
                                                      "determinism",
                                                      "scaling",
                                                      "special_values",
                                                      "special_gradients"};
  return static_cast<std::size_t>(std::find(std::begin(narrow_first), std::end(narrow_first), property) -
                                  std::begin(narrow_first));
}

// "y" of "y[n=0 g=0 k=3 s=0] …" and of "y, group 0 of 1".
std::string_view role_of(const FindingRows& rows) {
  return std::string_view(rows.at).substr(0, rows.at.find_first_of("[, "));
}

// Whether the words of a problem line that place tensors in memory are the same: layouts, in place, misalignment,
// threads.
std::vector<std::string> placement_of(const std::string& line) {
  std::vector<std::string> result;
  std::istringstream words(line);
  for (std::string word; words >> word;)
    for (const std::string_view part : {"layout=", "in_place", "misalign=", "skew=", "threads="})
      if (word.find(part) != std::string::npos) result.push_back(word.substr(0, word.find('=')));
  std::sort(result.begin(), result.end());
  return result;
}

// special_values and special_gradients also judge elements that no NaN or infinity reaches; there they say nothing
// about special values.
bool is_about_ordinary_values(const Unit& unit) {
  const bool special = unit.property == "special_values" || unit.property == "special_gradients";
  return special && unit.finding &&
         unit.finding->error.find("no input that it depends on is NaN or infinite") != std::string::npos;
}

// Blocks never join what failed with what crashed or was mistrusted: those have different remedies.
bool same_block(const Unit& a, const Unit& b) {
  if (verdict_of(a) != verdict_of(b)) return false;
  const std::string diagnosis = a.finding ? a.finding->diagnosis : "";
  if (diagnosis != (b.finding ? b.finding->diagnosis : "")) return false;
  if (!diagnosis.empty()) return true;
  if (std::tie(a.phase, a.convention) != std::tie(b.phase, b.convention)) return false;
  if (!a.finding || !b.finding) return a.property == b.property && a.finding.has_value() == b.finding.has_value();
  const std::string_view role = role_of(*a.finding);
  if (role.empty() || role != role_of(*b.finding)) return a.property == b.property && role == role_of(*b.finding);
  return placement_of(a.finding->problem) == placement_of(b.finding->problem);
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
  // A diagnosis says what the mistake is, whichever property met it: the first one in the record heads the block.
  const bool diagnosed = units.front()->finding && !units.front()->finding->diagnosis.empty();
  std::vector<std::string> properties;
  for (const Unit* unit : units) add_once(properties, unit->property);
  const auto rank = [&](const Unit& unit) {
    const bool plainest = properties.size() >= many_properties && is_plainest(unit.property);
    return std::pair(is_about_ordinary_values(unit), diagnosed || plainest ? 0 : 1 + breadth(unit.property));
  };
  const Unit& first =
      **std::min_element(units.begin(), units.end(), [&](const Unit* a, const Unit* b) { return rank(*a) < rank(*b); });
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

using Units = std::vector<const Unit*>;

// A block that special_values (special_gradients) alone makes, at elements that no NaN or infinity reaches, goes to
// another block of the same phase, convention and output: that one shows the mistake on ordinary data.
void join_ordinary_values(std::vector<Units>& blocks) {
  for (auto block = blocks.begin(); block != blocks.end();) {
    const bool ordinary =
        std::all_of(block->begin(), block->end(), [](const Unit* unit) { return is_about_ordinary_values(*unit); });
    const auto takes = [&](const Units& other) {
      return &other != &*block && std::any_of(other.begin(), other.end(), [&](const Unit* unit) {
        const Unit& special = *block->front();
        return unit->finding && unit->property != special.property && unit->verdict == special.verdict &&
               unit->phase == special.phase && unit->convention == special.convention &&
               role_of(*unit->finding) == role_of(*special.finding);
      });
    };
    const auto other = ordinary ? std::find_if(blocks.begin(), blocks.end(), takes) : blocks.end();
    if (other == blocks.end()) {
      ++block;
      continue;
    }
    other->insert(other->end(), block->begin(), block->end());
    block = blocks.erase(block);
  }
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
  for (Kernel& kernel : kernels) join_ordinary_values(kernel.blocks);
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
