#include "reports/formats/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "reports/clean_text.hpp"
#include "reports/formats/audit.hpp"
#include "reports/grouping.hpp"

namespace normgate {
namespace {

class Paint {
 public:
  explicit Paint(bool colour) : colour_(colour) {}
  [[nodiscard]] std::string red(const std::string& text) const { return wrap("31", text); }
  [[nodiscard]] std::string green(const std::string& text) const { return wrap("32", text); }
  [[nodiscard]] std::string yellow(const std::string& text) const { return wrap("33", text); }

 private:
  [[nodiscard]] std::string wrap(const char* code, const std::string& text) const {
    return colour_ ? fmt::format("\x1b[1;{}m{}\x1b[0m", code, text) : text;
  }
  bool colour_;
};

std::string with_separators(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t start = digits.starts_with('-') ? 1 : 0;
  for (std::size_t place = digits.size(); place > start + 3;) {
    place -= 3;
    digits.insert(place, ",");
  }
  return digits;
}

std::string count(std::int64_t value, std::string_view noun) {
  return fmt::format("{} {}{}", with_separators(value), noun, value == 1 ? "" : "s");
}

std::string header(const Record& record) {
  std::string result = fmt::format("normgate {}\n", record.version);
  const auto row = [&](std::string_view label, std::string_view value) {
    result += fmt::format("{:<8} {}\n", label, clean_lines(value, 9));
  };
  row("cpu", record.cpu);
  row("targets", record.targets.empty() ? "none" : fmt::format("{}", fmt::join(record.targets, ", ")));
  std::set<std::string> told;
  for (const SkippedTarget& target : record.skipped_targets) {
    const std::string sentence = fmt::format("{}: {}", target.target, target.reason);
    if (told.insert(sentence).second) row("skipped", sentence);
  }
  row("seed", std::to_string(record.seed));
  row("effort", record.effort);
  return result + "\n";
}

// ---- verdicts per kernel and target ----

struct Cell {
  std::array<std::int64_t, verdict_count> counts{};
  std::int64_t units = 0;
};

// PASSED; PASSED 12/14 (two refused); FAILED 2/14; REFUSED; - (not tried there).
std::string cell_text(const Cell& cell) {
  if (cell.units == 0) return "-";
  std::int64_t failing = 0;
  Verdict word = Verdict::passed;
  for (const Verdict verdict : {Verdict::mistrusted, Verdict::timed_out, Verdict::crashed, Verdict::failed}) {
    const std::int64_t here = cell.counts[static_cast<std::size_t>(verdict)];
    failing += here;
    if (here > 0) word = verdict;
  }
  if (failing > 0) return fmt::format("{} {}/{}", name_of(word), failing, cell.units);
  const std::int64_t passed = cell.counts[static_cast<std::size_t>(Verdict::passed)];
  if (passed == cell.units) return "PASSED";
  if (passed > 0) return fmt::format("PASSED {}/{}", passed, cell.units);
  return cell.counts[static_cast<std::size_t>(Verdict::skipped)] > 0 ? "SKIPPED" : "REFUSED";
}

std::string painted(const std::string& cell, const Paint& paint) {
  if (cell == "-") return cell;
  if (cell == "PASSED") return paint.green(cell);
  if (cell.starts_with("PASSED") || cell == "SKIPPED" || cell == "REFUSED") return paint.yellow(cell);
  return paint.red(cell);
}

// A row per kernel, a column per target. Kernels of one plugin stand together, since
// their targets are the same; plugins with other targets get a table of their own.
std::string table(const Record& record, const Paint& paint) {
  struct Row {
    std::string name;
    std::map<std::string, Cell> cells;
  };
  struct Group {
    std::string plugin;
    std::vector<std::string> targets;
    std::vector<std::string> kernels;
    std::map<std::string, Row> rows;
  };
  std::vector<Group> groups;
  const auto add_once = [](std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  };
  for (const Unit& unit : record.units) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.plugin == unit.plugin; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), Group{.plugin = unit.plugin, .targets = {}, .kernels = {}, .rows = {}});
    }
    add_once(group->targets, unit.target);
    add_once(group->kernels, unit.kernel);
    Row& row = group->rows[unit.kernel];
    if (row.name.empty()) row.name = clean_line(display_name(record, unit.plugin, unit.kernel));
    Cell& cell = row.cells[unit.target];
    ++cell.counts[static_cast<std::size_t>(verdict_of(unit))];
    ++cell.units;
  }
  std::size_t name_width = 6;
  for (const Group& group : groups) {
    for (const auto& [kernel, row] : group.rows) name_width = std::max(name_width, row.name.size());
  }
  std::string result;
  for (const Group& group : groups) {
    std::vector<std::size_t> widths;
    for (const std::string& target : group.targets) {
      std::size_t width = clean_line(target).size();
      for (const auto& [kernel, row] : group.rows) {
        const auto cell = row.cells.find(target);
        width = std::max(width, cell_text(cell == row.cells.end() ? Cell{} : cell->second).size());
      }
      widths.push_back(width);
    }
    // Trailing blanks are never printed: the last column is not padded.
    const auto pad = [&](std::size_t column, std::size_t used) {
      return column + 1 == widths.size() ? std::string() : std::string(widths[column] - used, ' ');
    };
    result += fmt::format("{:<{}}", "kernel", name_width);
    for (std::size_t column = 0; column < widths.size(); ++column) {
      const std::string target = clean_line(group.targets[column]);
      result += "  " + target + pad(column, target.size());
    }
    result += '\n';
    for (const std::string& kernel : group.kernels) {
      const Row& row = group.rows.at(kernel);
      result += fmt::format("{:<{}}", row.name, name_width);
      for (std::size_t column = 0; column < widths.size(); ++column) {
        const auto cell = row.cells.find(group.targets[column]);
        const std::string text = cell_text(cell == row.cells.end() ? Cell{} : cell->second);
        result += "  " + painted(text, paint) + pad(column, text.size());
      }
      result += '\n';
    }
    result += '\n';
  }
  return result;
}

// ---- failures ----

std::string block_text(const FindingBlock& block, const std::string& kernel, const Paint& paint) {
  std::string result = fmt::format("{}  {}   {}   {}", paint.red("FAIL"), clean_line(block.property),
                                   clean_line(kernel), clean_line(fmt::format("{}", fmt::join(block.targets, ", "))));
  if (block.verdict != Verdict::failed) result += fmt::format("   {}", name_of(block.verdict));
  result += '\n';
  // Labels are padded to the width of "error "; the two long ones keep their own.
  const auto row = [&](std::string_view label, const std::string& text) {
    if (!text.empty()) result += fmt::format("{:<5} {}\n", label, clean_lines(text, 6));
  };
  row("says", block.rows.says);
  row("case", block.rows.problem);
  row("in", block.rows.in);
  row("at", block.rows.at);
  row("got", block.rows.got);
  row("want", block.rows.want);
  row("error", block.rows.error);
  row("looks like", block.rows.looks_like);
  row("also fails", fmt::format("{}", fmt::join(block.also_fails, ", ")));
  row("again", block.rows.again);
  return result + "\n";
}

std::string failures(const Record& record, const Paint& paint) {
  std::string result;
  for (const FindingBlocks& blocks : group_findings(record)) {
    const std::string kernel = display_name(record, blocks.plugin, blocks.kernel);
    for (const FindingBlock& block : blocks.shown) result += block_text(block, kernel, paint);
    if (blocks.hidden > 0) {
      result += fmt::format("{}: {} not shown\n\n", clean_line(kernel), count(blocks.hidden, "more finding"));
    }
  }
  return result;
}

// "a, b, c, d and 96 more"
std::string some_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  if (names.size() <= most + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

// A line per claim with the kernels that do not make it; claims that the same kernels do not make share a line.
std::string not_claimed(const Record& record) {
  struct Part {
    std::vector<std::string> things;
    std::vector<std::string> kernels;
  };
  std::vector<Part> parts;  // one thing each
  for (const std::string& entry : record.not_claimed) {
    const std::size_t colon = entry.find(": ");
    const std::string kernel = colon == std::string::npos ? "" : entry.substr(0, colon);
    std::string things = colon == std::string::npos ? entry : entry.substr(colon + 2);
    for (std::size_t comma = 0; !things.empty();) {
      comma = things.find(", ");
      const std::string thing = things.substr(0, comma);
      things = comma == std::string::npos ? "" : things.substr(comma + 2);
      auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.things.front() == thing; });
      if (part == parts.end()) part = parts.insert(parts.end(), Part{{thing}, {}});
      if (!kernel.empty() && std::find(part->kernels.begin(), part->kernels.end(), kernel) == part->kernels.end())
        part->kernels.push_back(kernel);
    }
  }
  std::vector<Part> lines;
  for (Part& part : parts) {
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Part& l) { return l.kernels == part.kernels; });
    if (line == lines.end())
      lines.push_back(std::move(part));
    else
      line->things.push_back(part.things.front());
  }
  if (lines.empty()) return "";
  std::string result = "not claimed, not tested:";
  for (const Part& line : lines) {
    const std::string things = fmt::format("{}", fmt::join(line.things, ", "));
    result += lines.size() == 1 ? " " : "\n  ";
    result += clean_line(line.kernels.empty() ? things : fmt::format("{} ({})", things, some_names(line.kernels)));
  }
  return result + "\n\n";
}

std::string last_line(const Record& record) {
  std::set<std::pair<std::string, std::string>> kernels;
  std::set<std::string> targets;
  std::int64_t cases = 0;
  std::int64_t refused = 0;
  std::int64_t elements = 0;
  const Unit* worst = nullptr;
  for (const Unit& unit : record.units) {
    kernels.emplace(unit.plugin, unit.kernel);
    if (is_tested(verdict_of(unit))) targets.insert(unit.target);
    cases += unit.cases;
    refused += unit.refused_cases;
    elements += unit.elements;
    const double share = unit.worst.share_of_bound;
    // NaN counts as worst: a share that cannot be told is not small.
    if (share > 0 || std::isnan(share)) {
      if (worst == nullptr || share > worst->worst.share_of_bound ||
          (std::isnan(share) && !std::isnan(worst->worst.share_of_bound))) {
        worst = &unit;
      }
    }
  }
  std::string result = fmt::format(
      "{}, {}, {}, {}, {} compared", count(static_cast<std::int64_t>(kernels.size()), "kernel"),
      count(static_cast<std::int64_t>(targets.size()), "target"),
      count(static_cast<std::int64_t>(record.units.size()), "unit"), count(cases, "case"), count(elements, "element"));
  if (worst != nullptr) {
    result += fmt::format(", worst share of the bound {} ({} on {}: {})", share_text(worst->worst.share_of_bound),
                          display_name(record, worst->plugin, worst->kernel), worst->target, worst->worst.problem);
  }
  result +=
      fmt::format(", {:.3g} % refused, {:.1f} seconds",
                  cases > 0 ? 100.0 * static_cast<double>(refused) / static_cast<double>(cases) : 0.0, record.seconds);
  return clean_line(result) + "\n";
}

}  // namespace

std::string share_text(double share) {
  if (share < 1) share = std::floor(share * 1e4) / 1e4;
  return fmt::format("{:.4g}", share);
}

std::string write_text(const Record& record, const TextOptions& options) {
  const Paint paint(options.colour);
  const Summary summary = summarize(record);
  std::string result;
  if (!options.quiet) result += header(record) + table(record, paint) + audit_tables(record);
  result += failures(record, paint);
  if (!options.quiet) result += not_claimed(record);
  for (const std::string& error : record.harness_errors) {
    result += fmt::format("{} {}\n", paint.red("harness"), clean_lines(error, 8));
  }
  if (!record.harness_errors.empty()) result += '\n';
  result += (summary.exit_code == 0 ? paint.green(summary.verdict) : paint.red(summary.verdict)) + "\n";
  return result + last_line(record);
}

}  // namespace normgate
