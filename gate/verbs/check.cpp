// normgate check: the gate.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>

#include "gate/engine/coverage.hpp"
#include "gate/engine/jobs.hpp"
#include "gate/engine/names.hpp"
#include "gate/engine/record_transfer.hpp"
#include "gate/verbs/options.hpp"
#include "reports/files.hpp"
#include "reports/formats/list.hpp"
#include "reports/formats/text.hpp"

namespace normgate::verbs {
namespace {

struct CheckOptions {
  CommonOptions common;
  std::map<std::string_view, std::vector<std::string>> outputs;  // by the format's name
  bool coverage = false;
  std::string shard;   // "1/4", in the gate processes of --jobs
  std::string record;  // … and where their result goes
};

// "1/4": index and count.
bool parse_shard_option(const std::string& text, RunOptions& options) {
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, options.shard);
  if (index.ec != std::errc() || index.ptr == end || *index.ptr != '/') return false;
  const auto count = std::from_chars(index.ptr + 1, end, options.shard_count);
  return count.ec == std::errc() && count.ptr == end && options.shard >= 0 && options.shard < options.shard_count;
}

int check_as_shard(CheckOptions& options) {
  end_with_parent();
  RunOptions& run = options.common.run;
  if (!parse_shard_option(options.shard, run) || options.record.empty())
    return usage_error("--shard is INDEX/COUNT and comes with --record FILE");
  const Gate gate = open_gate(run);
  const std::unique_ptr<Progress> progress = progress_for_parent();
  const ShardResult result = run_shard(gate, run, *progress);
  if (const auto error = write_file(options.record, print_shard(result))) {
    fmt::print(stderr, "normgate: {}\n", *error);
    return exit_harness;
  }
  return exit_passed;
}

void print_plan(const Record& record) {
  std::int64_t cases = 0;
  for (const Unit& unit : record.units) {
    fmt::print("{}  {}  {}  {}  {}  {}  {}\n", unit.kernel, unit.target, unit.phase, unit.convention, unit.property,
               unit.cases, unit.cases == 1 ? "case" : "cases");
    cases += unit.cases;
  }
  fmt::print("{} units, {} cases\n", record.units.size(), cases);
}

// A table for each kernel and phase, with what is missing below its line.
void print_coverage(const std::vector<PlanCoverage>& plans) {
  constexpr std::size_t most_missing = 8;
  for (const PlanCoverage& plan : plans) {
    fmt::print("\n{}  {}  {}: {} problems\n", plan.kernel, plan.phase, plan.convention, plan.problems);
    for (const CoverageRow& row : plan.rows) {
      fmt::print("  {:<45}  {} of {}{}\n", row.name, row.covered, row.possible,
                 row.guaranteed || row.missing.empty() ? "" : "  (not guaranteed at this effort)");
      if (!row.guaranteed || row.missing.empty()) continue;
      const std::size_t shown = std::min(most_missing, row.missing.size());
      fmt::print("    missing: {}{}\n",
                 fmt::join(row.missing.begin(), row.missing.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                 shown < row.missing.size() ? fmt::format(" and {} more", row.missing.size() - shown) : "");
    }
  }
}

int check(CheckOptions& options) {
  CommonOptions& common = options.common;
  if (auto sentence = complete(common)) return usage_error(*sentence);
  if (options.coverage && !common.run.dry_run)
    return usage_error("--coverage is about the plan: it goes with --dry-run");
  if (!options.shard.empty()) return check_as_shard(options);
  std::map<std::filesystem::path, std::string_view> taken;
  for (const auto& [format, paths] : options.outputs) {
    for (const std::string& path : paths) {
      if (common.run.dry_run) return usage_error("--dry-run makes no record: it goes with no output file");
      if (auto sentence = check_writable(path)) return usage_error(*sentence);
      std::error_code error;
      const std::filesystem::path file = std::filesystem::weakly_canonical(path, error);
      // What is a pipe or a terminal may take several.
      if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) continue;
      if (const auto [other, fresh] = taken.emplace(file, format); !fresh)
        return usage_error(fmt::format("'{}' is named for two outputs ({} and {}): the second would replace the first",
                                       path, other->second, format));
    }
  }

  const Gate gate = open_gate(common.run);
  if (std::string sentence = wrong_names(gate, common.run); !sentence.empty()) return usage_error(sentence);
  if (!common.quiet) {
    fmt::print(stderr, "normgate {}; {}; seed {}, effort {}, {}\n", version(), cpu_name(), common.run.seed,
               common.effort, common.run.jobs == 1 ? "1 job" : fmt::format("{} jobs", common.run.jobs));
  }
  const std::unique_ptr<Progress> progress =
      common.quiet ? std::unique_ptr<Progress>(std::make_unique<NoProgress>()) : progress_on_stderr();
  const Record record = run(gate, common.run, *progress);
  if (common.run.dry_run) {
    print_plan(record);
    if (options.coverage) print_coverage(plan_coverage(gate, common.run));
    for (const std::string& error : record.harness_errors) fmt::print(stderr, "normgate: {}\n", error);
    return record.harness_errors.empty() ? exit_passed : exit_harness;
  }
  fmt::print("{}", write_text(record, {.colour = colour_on_stdout(), .quiet = common.quiet}));
  std::fflush(stdout);
  int exit_code = summarize(record).exit_code;
  for (const Format& format : format_list()) {
    for (const std::string& path : options.outputs[format.name]) {
      if (const auto error = write_file(path, format.write(record))) {
        fmt::print(stderr, "normgate: {}\n", *error);
        exit_code = exit_harness;
      }
    }
  }
  return exit_code;
}

}  // namespace

void add_check(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* verb = command.add_subcommand("check", "try kernels and give a verdict");
  add_selection(*verb, options->common);
  add_run_options(*verb, options->common);
  add_runner_options(*verb, options->common);
  for (const Format& format : format_list())
    verb->add_option(std::string(format.option), options->outputs[format.name],
                     std::string(format.help) + " (repeatable)")
        ->type_name("FILE")
        ->allow_extra_args(false);
  verb->add_flag("--coverage", options->coverage,
                 "with --dry-run: what the plans of a kernel cover, and what they miss");
  // Between the processes of --jobs.
  verb->add_option("--shard", options->shard)->group("");
  verb->add_option("--record", options->record)->group("");
  verb->add_option("--grave-cases-per-unit", options->common.run.grave_cases_per_unit)->group("");
  verb->add_option("--hangs-per-kernel", options->common.run.hangs_per_kernel)->group("");
  verb->callback([options, &exit_code] { exit_code = check(*options); });
}

}  // namespace normgate::verbs
