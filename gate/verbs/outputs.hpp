// The files that a verb writes its record to, one option per format.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.hpp"

namespace normgate::verbs {

struct Outputs {
  std::map<std::string_view, std::vector<std::string>> paths;  // by the format's name
};

void add_outputs(CLI::App& verb, Outputs& outputs);
// A sentence if one cannot be written, or is named twice.
[[nodiscard]] std::optional<std::string> wrong_outputs(const Outputs& outputs, bool dry_run);
// The record as text on stdout and in the files; the exit code. That a file could not be written is on stderr.
[[nodiscard]] int tell_record(const Record& record, bool quiet, const Outputs& outputs);

// A dry run: the units and their cases.
void print_plan(const Record& record);

}  // namespace normgate::verbs
