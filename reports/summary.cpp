// The verdict of a run in one sentence, and its exit code (record.hpp). Fails closed: what was not tried is not passed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "reports/clean_text.hpp"
#include "reports/grouping.hpp"
#include "reports/record.hpp"

namespace normgate {
namespace {

struct KernelTally {
  std::string name;
  std::int64_t cases = 0;
  std::int64_t refused_cases = 0;
  bool tested = false;
  std::string reason;  // the first one given for a refusal
};

std::vector<KernelTally> tally_kernels(const Record& record) {
  std::vector<KernelTally> result;
  std::map<std::pair<std::string, std::string>, std::size_t> index;
  for (const Unit& unit : record.units) {
    const auto [entry, is_new] = index.try_emplace({unit.plugin, unit.kernel}, result.size());
    if (is_new) result.push_back({.name = display_name(record, unit.plugin, unit.kernel), .reason = ""});
    KernelTally& kernel = result[entry->second];
    kernel.cases += unit.cases;
    kernel.refused_cases += unit.verdict == Verdict::refused && unit.cases > 0 ? unit.cases : unit.refused_cases;
    kernel.tested = kernel.tested || is_tested(verdict_of(unit));
    if (kernel.reason.empty() && unit.verdict == Verdict::refused) kernel.reason = unit.reason;
  }
  return result;
}

std::vector<std::string> without_repeats(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::string& name : names) {
    if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  return result;
}

struct Targets {
  std::vector<std::string> all;       // tried ones first, then those that were skipped
  std::vector<std::string> passed;    // every unit fine, at least one tested, tried in every plugin
  std::vector<std::string> failing;   // some unit fails
  std::vector<std::string> untested;  // tried, but not one unit was tested there
  std::vector<std::string> skipped;   // "avx3: not on this CPU"
};

Targets tally_targets(const Record& record) {
  Targets result;
  std::vector<std::string> names = record.targets;
  for (const Unit& unit : record.units) names.push_back(unit.target);
  std::set<std::string> skipped;
  std::vector<std::string> sentences;
  for (const SkippedTarget& target : record.skipped_targets) {
    names.push_back(target.target);
    skipped.insert(target.target);
    sentences.push_back(fmt::format("{}: {}", target.target, target.reason));
  }
  result.all = without_repeats(names);
  result.skipped = without_repeats(sentences);
  std::set<std::string> tested;
  std::set<std::string> failing;
  for (const Unit& unit : record.units) {
    const Verdict verdict = verdict_of(unit);
    if (is_tested(verdict)) tested.insert(unit.target);
    if (fails(verdict)) failing.insert(unit.target);
  }
  for (const std::string& name : result.all) {
    if (failing.contains(name)) {
      result.failing.push_back(name);
    } else if (tested.contains(name) && !skipped.contains(name)) {
      result.passed.push_back(name);
    } else if (!tested.contains(name) && !skipped.contains(name)) {
      result.untested.push_back(name);
    }
  }
  return result;
}

std::string some_of(const std::vector<std::string>& names, std::size_t most = 6) {
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most), ", "),
                     names.size() - most);
}

std::string plural(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "PASSED on 4 of 5 targets (avx3: not on this CPU)"
std::string passed_sentence(const Targets& targets) {
  std::string result = fmt::format("PASSED on {} of {}", targets.passed.size(), plural(targets.all.size(), "target"));
  std::vector<std::string> reasons = targets.skipped;
  for (const std::string& name : targets.untested) reasons.push_back(name + ": nothing was tested there");
  if (!reasons.empty()) result += fmt::format(" ({})", some_of(reasons));
  return result;
}

// ", but layer_norm refused 62 % of its cases", or nothing.
std::string refusals(const std::vector<KernelTally>& kernels) {
  std::vector<std::string> parts;
  for (const KernelTally& kernel : kernels) {
    if (!kernel.tested || kernel.cases <= 0 || 2 * kernel.refused_cases <= kernel.cases) continue;
    parts.push_back(fmt::format("{} refused {:.0f} % of its cases", kernel.name,
                                100.0 * static_cast<double>(kernel.refused_cases) / static_cast<double>(kernel.cases)));
  }
  return parts.empty() ? "" : ", but " + some_of(parts, 3);
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "PASSED";
    case Verdict::failed:
      return "FAILED";
    case Verdict::crashed:
      return "CRASHED";
    case Verdict::timed_out:
      return "TIMED_OUT";
    case Verdict::mistrusted:
      return "MISTRUSTED";
    case Verdict::refused:
      return "REFUSED";
    case Verdict::skipped:
      return "SKIPPED";
  }
  return "UNKNOWN";
}

Summary summarize(const Record& record) {
  Summary summary;
  std::vector<std::string> skipped_units;  // on targets that were tried: memory, …
  std::set<std::string> skipped_names;
  for (const SkippedTarget& target : record.skipped_targets) skipped_names.insert(target.target);
  for (const Unit& unit : record.units) {
    ++summary.counts[static_cast<std::size_t>(verdict_of(unit))];
    if (unit.verdict == Verdict::skipped && !skipped_names.contains(unit.target)) {
      skipped_units.push_back(fmt::format("{} {} on {}: {}", display_name(record, unit.plugin, unit.kernel),
                                          unit.property, unit.target, unit.reason));
    }
  }
  const auto count_of = [&](Verdict verdict) { return summary.counts[static_cast<std::size_t>(verdict)]; };
  const Targets targets = tally_targets(record);
  const std::vector<KernelTally> kernels = tally_kernels(record);

  std::vector<std::string> untested_kernels;
  for (const KernelTally& kernel : kernels) {
    if (kernel.tested) continue;
    untested_kernels.push_back(kernel.reason.empty() ? kernel.name
                                                     : fmt::format("{} ({})", kernel.name, kernel.reason));
  }

  // Sentences in the order of precedence of their exit codes; the first one leads, the others follow.
  std::vector<std::pair<std::int32_t, std::string>> findings;
  if (!record.harness_errors.empty()) {
    // The sentences stand above the verdict, or in their own place of the format.
    findings.emplace_back(3, "NOT JUDGED: " + plural(record.harness_errors.size(), "harness error"));
  }
  std::vector<std::string> kinds;
  std::int64_t failing_units = 0;
  for (const Verdict verdict : {Verdict::failed, Verdict::crashed, Verdict::timed_out, Verdict::mistrusted}) {
    if (count_of(verdict) == 0) continue;
    kinds.push_back(fmt::format("{} {}", count_of(verdict), name_of(verdict)));
    failing_units += count_of(verdict);
  }
  if (failing_units > 0) {
    // One kind leads with its own word.
    const std::string word = kinds.size() == 1 ? kinds.front().substr(kinds.front().find(' ') + 1) : "FAILED";
    findings.emplace_back(1, fmt::format("{} on {} of {} ({}){}: {} of {}{}", word, targets.failing.size(),
                                         plural(targets.all.size(), "target"), some_of(targets.failing),
                                         refusals(kernels), failing_units, plural(record.units.size(), "unit"),
                                         kinds.size() == 1 ? "" : fmt::format(" ({})", fmt::join(kinds, ", "))));
  }
  std::vector<std::string> incomplete;
  for (const std::string& name : record.required_missing) {
    incomplete.push_back(fmt::format("required target {} was not tried", name));
  }
  if (!skipped_units.empty()) {
    incomplete.push_back(
        fmt::format("{} could not be run: {}", plural(skipped_units.size(), "unit"), some_of(skipped_units, 2)));
  }
  if (!targets.untested.empty() && !targets.passed.empty()) {
    incomplete.push_back("nothing was tested on " + some_of(targets.untested));
  }
  if (!incomplete.empty()) {
    findings.emplace_back(5, fmt::format("INCOMPLETE: {}", fmt::join(incomplete, "; ")));
  }
  if (kernels.empty() || untested_kernels.size() == kernels.size()) {
    findings.emplace_back(4, untested_kernels.empty()
                                 ? "NOTHING TESTED"
                                 : "NOTHING TESTED: every kernel declined everything, " + some_of(untested_kernels, 3));
  } else if (!untested_kernels.empty()) {
    findings.emplace_back(4, "NOTHING TESTED of " + some_of(untested_kernels, 3));
  }
  std::string tail;
  if (findings.empty() || (findings.front().first != 1 && !targets.passed.empty() && failing_units == 0)) {
    const std::string passed = passed_sentence(targets) + refusals(kernels);
    if (findings.empty()) {
      summary.verdict = passed;
    } else {
      tail = "; what was tried " + passed;
    }
  }
  for (std::size_t index = 0; index < findings.size(); ++index) {
    summary.verdict += (index == 0 ? "" : "; ") + findings[index].second;
  }
  summary.verdict = clean_line(summary.verdict + tail);
  summary.exit_code = findings.empty() ? 0 : findings.front().first;
  return summary;
}

}  // namespace normgate
