// What the verbs have in common: their options, exit codes, and where the built-in plugins are.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gate/engine/run.hpp"

namespace normgate::verbs {

// DESIGN §8; 1, 4 and 5 come from the record's summary.
inline constexpr int exit_passed = 0;
inline constexpr int exit_usage = 2;
inline constexpr int exit_harness = 3;

// A verb adds its subcommand to the command line; the function it leaves behind runs it and returns the exit code.
void add_audit(CLI::App& command, int& exit_code);
void add_check(CLI::App& command, int& exit_code);
void add_list(CLI::App& command, int& exit_code);
void add_replay(CLI::App& command, int& exit_code);
void add_self_check(CLI::App& command, int& exit_code);
void add_prove(CLI::App& command, int& exit_code);
void add_doctor(CLI::App& command, int& exit_code);
void add_bench(CLI::App& command, int& exit_code);

struct CommonOptions {
  RunOptions run;
  std::string effort = "quick";
  bool quiet = false;
};

// --plugin, --kernel, --target; with `all`, the options of a whole run as well.
void add_selection(CLI::App& verb, CommonOptions& options);
void add_run_options(CLI::App& verb, CommonOptions& options);
void add_runner_options(CLI::App& verb, CommonOptions& options);

// Fills in what follows from others (built-in plugins, effort). A sentence if something is wrong.
[[nodiscard]] std::optional<std::string> complete(CommonOptions& options);

// The folder of the plugins that come with the command; "" if it cannot be told.
[[nodiscard]] std::string plugin_folder();
[[nodiscard]] std::vector<std::string> built_in_plugins();

[[nodiscard]] int usage_error(const std::string& sentence);
// Whether stdout is a terminal that takes colours; NO_COLOR wins.
[[nodiscard]] bool colour_on_stdout();

}  // namespace normgate::verbs
