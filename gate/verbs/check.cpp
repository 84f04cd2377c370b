// normgate check: the gate.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "gate/engine/coverage.hpp"
#include "gate/engine/jobs.hpp"
#include "gate/engine/names.hpp"
#include "gate/engine/record_transfer.hpp"
#include "gate/verbs/options.hpp"
#include "gate/verbs/outputs.hpp"
#include "reports/files.hpp"

namespace normgate::verbs {
namespace {

struct CheckOptions {
  CommonOptions common;
  Outputs outputs;
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
  if (auto sentence = wrong_outputs(options.outputs, common.run.dry_run)) return usage_error(*sentence);

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
  return tell_record(record, common.quiet, options.outputs);
}

}  // namespace

void add_check(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* verb = command.add_subcommand("check", "try kernels and give a verdict");
  add_selection(*verb, options->common);
  add_run_options(*verb, options->common);
  add_runner_options(*verb, options->common);
  add_outputs(*verb, options->outputs);
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
