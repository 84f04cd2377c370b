// normgate self-check: the gate's own honesty.
#include "gate/engine/self_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "gate/verbs/museum.hpp"
#include "gate/verbs/options.hpp"
#include "reports/files.hpp"

namespace normgate::verbs {
namespace {

struct SelfCheckOptions {
  CommonOptions common;
  std::vector<std::string> json;
};

std::string to_json(const SelfCheck& check) {
  using Json = nlohmann::ordered_json;
  Json pieces = Json::array();
  for (const PieceResult& piece : check.pieces)
    pieces.push_back({{"name", piece.name},
                      {"property", piece.property},
                      {"caught_by", piece.caught_by},
                      {"diagnosis", piece.diagnosis},
                      {"expected_diagnosis", piece.expected_diagnosis},
                      {"cases", piece.cases},
                      {"diagnosed", piece.diagnosed()},
                      {"problem", piece.problem},
                      {"seconds", piece.seconds},
                      {"rejected", piece.rejected}});
  Json sound = Json::array();
  for (const SoundResult& one : check.sound)
    sound.push_back({{"name", one.name}, {"passed", one.passed}, {"complaint", one.complaint}});
  Json loading = Json::array();
  for (const LoadingResult& one : check.loading)
    loading.push_back({{"name", one.name}, {"rejected", one.rejected}, {"sentence", one.sentence}});
  const SelfCheckTotals totals = check.totals();
  const Json json = {{"schema", 1},
                     {"version", version()},
                     {"honest", check.honest()},
                     {"seconds", check.seconds},
                     {"pieces", pieces},
                     {"sound", sound},
                     {"loading", loading},
                     {"totals",
                      {{"pieces", totals.pieces},
                       {"caught", totals.caught},
                       {"expected_diagnoses", totals.expected},
                       {"diagnosed", totals.diagnosed},
                       {"diagnosed_share_demanded", diagnosed_share_demanded},
                       {"median_seconds", totals.median_seconds},
                       {"largest_seconds", totals.largest_seconds},
                       {"slowest", totals.slowest},
                       {"median_cases", totals.median_cases},
                       {"largest_cases", totals.largest_cases}}},
                     {"properties_without_piece", check.properties_without_piece},
                     {"unknown_properties", check.unknown_properties},
                     {"harness_errors", check.harness_errors}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A wrong diagnosis is printed as such.
std::string looks_like(const PieceResult& piece) {
  const bool wrong = !piece.expected_diagnosis.empty() && piece.diagnosis != piece.expected_diagnosis;
  std::string text = piece.diagnosis.empty() ? "" : fmt::format("  looks like {}", piece.diagnosis);
  if (wrong)
    text += fmt::format("\n          {}: expected {}", piece.diagnosis.empty() ? "NOT DIAGNOSED" : "WRONG DIAGNOSIS",
                        piece.expected_diagnosis);
  return text;
}

void print_totals(const SelfCheckTotals& totals, bool whole) {
  if (totals.pieces == 0) return;
  fmt::print("until caught: median {} cases and {:.2f} s, at most {} cases and {:.2f} s ({})\n", totals.median_cases,
             totals.median_seconds, totals.largest_cases, totals.largest_seconds, totals.slowest);
  if (totals.expected == 0) return;
  fmt::print("diagnoses: {} of {} as expected, word for word ({:.1f} %){}\n", totals.diagnosed, totals.expected,
             100 * static_cast<double>(totals.diagnosed) / static_cast<double>(totals.expected),
             !whole ? ""
             : totals.diagnosed_enough()
                 ? fmt::format(", at least {:.0f} % are demanded", 100 * diagnosed_share_demanded)
                 : fmt::format(", BELOW the {:.0f} % demanded", 100 * diagnosed_share_demanded));
}

void print_text(const SelfCheck& check) {
  std::size_t width = 0;
  for (const PieceResult& piece : check.pieces) width = std::max(width, piece.name.size());
  for (const SoundResult& one : check.sound) width = std::max(width, one.name.size());
  for (const LoadingResult& one : check.loading) width = std::max(width, one.name.size());
  for (const PieceResult& piece : check.pieces) {
    fmt::print("{:<8}  {:<{}}  {}  {} {}  {:.2f} s{}\n", piece.rejected ? "caught" : "MISSED", piece.name, width,
               piece.property, piece.cases, piece.cases == 1 ? "case" : "cases", piece.seconds, looks_like(piece));
    if (!piece.rejected)
      fmt::print("          caught by {} only\n",
                 piece.caught_by.empty() ? "nothing" : fmt::format("{}", fmt::join(piece.caught_by, ", ")));
  }
  for (const SoundResult& one : check.sound)
    fmt::print("{:<8}  {:<{}}  {}\n", one.passed ? "passed" : "REJECTED", one.name, width, one.complaint);
  for (const LoadingResult& one : check.loading)
    fmt::print("{:<8}  {:<{}}  {}\n", one.rejected ? "error" : "LOADED", one.name, width, one.sentence);
  for (const std::string& property : check.properties_without_piece)
    fmt::print("no broken kernel is made for property {}\n", property);
  for (const std::string& property : check.unknown_properties)
    fmt::print("a broken kernel is made for property {}, which does not exist\n", property);
  for (const std::string& error : check.harness_errors) fmt::print("harness {}\n", error);
  const SelfCheckTotals totals = check.totals();
  print_totals(totals, check.whole);

  const auto passed = std::count_if(check.sound.begin(), check.sound.end(), [](const auto& s) { return s.passed; });
  const auto refused =
      std::count_if(check.loading.begin(), check.loading.end(), [](const auto& one) { return one.rejected; });
  fmt::print(
      "{}: {} of {} broken kernels caught by their property, {} of {} sound kernels passed, {} of {} unloadable "
      "plugins told so, {:.1f} seconds\n",
      check.honest() ? "HONEST" : "NOT HONEST", totals.caught, totals.pieces, passed, check.sound.size(), refused,
      check.loading.size(), check.seconds);
}

int run_self_check(SelfCheckOptions& options) {
  RunOptions& run = options.common.run;
  for (const std::string& path : options.json)
    if (auto sentence = check_writable(path)) return usage_error(*sentence);
  const std::filesystem::path folder = plugin_folder();
  run.plugins = {(folder / "normgate_broken.so").string(), (folder / "normgate_broken_on_a_target.so").string()};
  std::vector<std::string> loading;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "loading", error))
    if (entry.path().extension() == ".so") loading.push_back(entry.path().string());
  std::sort(loading.begin(), loading.end());
  if (!run.kernels.empty()) {
    const Gate gate = open_gate(run);
    if (std::string sentence = wrong_names(gate, run); !sentence.empty()) return usage_error(sentence);
  }
  const std::unique_ptr<Progress> progress = progress_on_stderr();
  const SelfCheck check = self_check(run, museum(), loading, *progress);
  print_text(check);
  for (const std::string& path : options.json)
    if (const auto failed = write_file(path, to_json(check))) {
      fmt::print(stderr, "normgate: {}\n", *failed);
      return exit_harness;
    }
  return check.honest() ? exit_passed : exit_harness;
}

}  // namespace

void add_self_check(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<SelfCheckOptions>();
  CLI::App* verb = command.add_subcommand("self-check", "whether the gate rejects wrong kernels and passes sound ones");
  verb->add_option("--kernel", options->common.run.kernels, "only these pieces (repeatable, * and ? allowed)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->add_option("--seed", options->common.run.seed, "of the plan")->type_name("NUMBER");
  options->common.run.jobs = default_jobs();
  verb->add_option("--jobs,-j", options->common.run.jobs, "pieces that are tried at once")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 256));
  verb->add_option("--json", options->json, "write the result as JSON (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->callback([options, &exit_code] { exit_code = run_self_check(*options); });
}

}  // namespace normgate::verbs
