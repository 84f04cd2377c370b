#include "gate/verbs/outputs.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "gate/verbs/options.hpp"
#include "reports/files.hpp"
#include "reports/formats/list.hpp"
#include "reports/formats/text.hpp"

namespace normgate::verbs {

void add_outputs(CLI::App& verb, Outputs& outputs) {
  for (const Format& format : format_list())
    verb.add_option(std::string(format.option), outputs.paths[format.name], std::string(format.help) + " (repeatable)")
        ->type_name("FILE")
        ->allow_extra_args(false);
}

std::optional<std::string> wrong_outputs(const Outputs& outputs, bool dry_run) {
  std::map<std::filesystem::path, std::string_view> taken;
  for (const auto& [format, paths] : outputs.paths) {
    for (const std::string& path : paths) {
      if (dry_run) return "--dry-run makes no record: it goes with no output file";
      if (auto sentence = check_writable(path)) return sentence;
      std::error_code error;
      const std::filesystem::path file = std::filesystem::weakly_canonical(path, error);
      // What is a pipe or a terminal may take several.
      if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) continue;
      if (const auto [other, fresh] = taken.emplace(file, format); !fresh)
        return fmt::format("'{}' is named for two outputs ({} and {}): the second would replace the first", path,
                           other->second, format);
    }
  }
  return std::nullopt;
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

int tell_record(const Record& record, bool quiet, const Outputs& outputs) {
  fmt::print("{}", write_text(record, {.colour = colour_on_stdout(), .quiet = quiet}));
  std::fflush(stdout);
  int exit_code = summarize(record).exit_code;
  for (const Format& format : format_list()) {
    const auto paths = outputs.paths.find(format.name);
    if (paths == outputs.paths.end()) continue;
    for (const std::string& path : paths->second) {
      if (const auto error = write_file(path, format.write(record))) {
        fmt::print(stderr, "normgate: {}\n", *error);
        exit_code = exit_harness;
      }
    }
  }
  return exit_code;
}

}  // namespace normgate::verbs
