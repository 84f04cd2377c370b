// Options that several verbs share.
#include "gate/verbs/options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace normgate::verbs {

void add_selection(CLI::App& verb, CommonOptions& options) {
  verb.add_option("--plugin", options.run.plugins, "a plugin to load (repeatable); default: the built-in ones")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb.add_option("--kernel", options.run.kernels, "only these kernels (repeatable, * and ? allowed)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb.add_option("--target", options.run.targets, "only these targets (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb.add_option("--property", options.run.properties, "only these properties (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

// CLI11's own range checks print their limits with six decimals.
std::string seconds_in_a_day(const std::string& text) {
  double value = 0;
  if (CLI::detail::lexical_cast(text, value) && value > 0 && value <= 86400) return {};
  return fmt::format("'{}' is not a number of seconds above 0 and at most 86400", text);
}

void add_runner_options(CLI::App& verb, CommonOptions& options) {
  verb.add_option("--timeout", options.run.runner.cpu_seconds, "seconds of a worker's processor time for one call")
      ->type_name("SECONDS")
      ->check(seconds_in_a_day);
  verb.add_option("--wall-timeout", options.run.runner.wall_seconds, "seconds by the clock for one call")
      ->type_name("SECONDS")
      ->check(seconds_in_a_day);
  verb.add_flag("--in-process", options.run.runner.in_process,
                "run the plugin in this process, for a debugger: nothing is contained");
  verb.add_option("--worker", options.run.runner.worker_path, "the worker executable")->type_name("FILE")->group("");
}

void add_run_options(CLI::App& verb, CommonOptions& options) {
  verb.add_option("--phase", options.run.phases, "only these phases (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb.add_option("--effort", options.effort, "how many cases: quick, standard or thorough")
      ->type_name("EFFORT")
      ->check(CLI::IsMember({"quick", "standard", "thorough"}));
  verb.add_option("--seed", options.run.seed, "of the plan; another seed is another set of cases")->type_name("NUMBER");
  options.run.jobs = default_jobs();
  verb.add_option("--jobs,-j", options.run.jobs, "gate processes that share the work")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 256));
  verb.add_option("--require-target", options.run.required_targets, "fail if this target cannot be tried (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb.add_flag("--dry-run", options.run.dry_run, "print what would be tried");
  verb.add_flag("-q,--quiet", options.quiet, "failures and the verdict only");
}

std::optional<std::string> complete(CommonOptions& options) {
  options.run.effort = options.effort == "thorough"   ? Effort::thorough
                       : options.effort == "standard" ? Effort::standard
                                                      : Effort::quick;
  options.run.built_in_plugins = built_in_plugins();
  if (options.run.plugins.empty()) {
    options.run.plugins = options.run.built_in_plugins;
    if (options.run.plugins.empty())
      return fmt::format("no built-in plugin in {}; name one with --plugin",
                         plugin_folder().empty() ? "the command's folder" : plugin_folder());
  }
  return std::nullopt;
}

std::string plugin_folder() {
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return (executable.parent_path().parent_path() / "plugins").string();
}

std::vector<std::string> built_in_plugins() {
  std::vector<std::string> paths;
  for (const char* name : {"normgate_plain.so", "normgate_simd.so"}) {
    const std::filesystem::path path = std::filesystem::path(plugin_folder()) / name;
    std::error_code error;
    if (std::filesystem::exists(path, error)) paths.push_back(path.string());
  }
  return paths;
}

int usage_error(const std::string& sentence) {
  fmt::print(stderr, "normgate: {}\n", sentence);
  return exit_usage;
}

bool colour_on_stdout() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  return ::isatty(STDOUT_FILENO) != 0;
}

}  // namespace normgate::verbs
