// normgate audit: is this backward the derivative of this forward?
#include "gate/engine/audit.hpp"

#include <fmt/format.h>

#include <memory>

#include "gate/verbs/options.hpp"
#include "gate/verbs/outputs.hpp"

namespace normgate::verbs {
namespace {

struct AuditOptions {
  CommonOptions common;
  Outputs outputs;
};

int run_audit(AuditOptions& options) {
  CommonOptions& common = options.common;
  if (auto sentence = complete(common)) return usage_error(*sentence);
  if (auto sentence = wrong_outputs(options.outputs, common.run.dry_run)) return usage_error(*sentence);
  const Gate gate = open_gate(common.run);
  if (std::string sentence = wrong_names(gate, common.run); !sentence.empty()) return usage_error(sentence);
  if (std::string sentence = nothing_to_audit(common.run); !sentence.empty()) return usage_error(sentence);
  if (!common.quiet)
    fmt::print(stderr, "normgate {}; {}; audit of gradients, seed {}, effort {}\n", version(), cpu_name(),
               common.run.seed, common.effort);
  const std::unique_ptr<Progress> progress =
      common.quiet ? std::unique_ptr<Progress>(std::make_unique<NoProgress>()) : progress_on_stderr();
  const Record record = audit(gate, common.run, *progress);
  if (common.run.dry_run) {
    print_plan(record);
    for (const std::string& error : record.harness_errors) fmt::print(stderr, "normgate: {}\n", error);
    return record.harness_errors.empty() ? exit_passed : exit_harness;
  }
  return tell_record(record, common.quiet, options.outputs);
}

}  // namespace

void add_audit(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<AuditOptions>();
  CLI::App* verb = command.add_subcommand(
      "audit", "are gradients the derivative, of the definition and of the kernel's own forward?");
  add_selection(*verb, options->common);
  add_run_options(*verb, options->common);
  add_runner_options(*verb, options->common);
  add_outputs(*verb, options->outputs);
  verb->callback([options, &exit_code] { exit_code = run_audit(*options); });
}

}  // namespace normgate::verbs
