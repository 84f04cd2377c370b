// The command from end to end, with the plugins of the build: exit codes, findings that repeat, the same record for any
// number of processes.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

namespace {

const std::string command = NORMGATE_COMMAND;
const std::string plugins = NORMGATE_PLUGINS;
const std::string broken = " --plugin " + plugins + "/normgate_broken.so ";

const std::string mischief = " --plugin " NORMGATE_MISCHIEF " ";
const std::string custom = " --plugin " NORMGATE_CUSTOM " ";
const std::string gradient = " --plugin " NORMGATE_GRADIENT " ";

struct Ran {
  int exit_code = -1;
  std::string text;  // stdout and stderr
};

Ran run_line(const std::string& line) {
  Ran result;
  FILE* pipe = ::popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.text.append(buffer.data(), count);
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

Ran normgate(const std::string& arguments) { return run_line(command + " " + arguments); }

// The rest of the first line that begins with `label`.
std::string row(const std::string& text, const std::string& label) {
  const std::size_t start = text.find("\n" + label);
  if (start == std::string::npos) return {};
  const std::size_t from = start + 1 + label.size();
  return text.substr(from, text.find('\n', from) - from);
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

class Command : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "normgate-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(Command, WrongUseIsExitCode2WithTheNearestNames) {
  for (const std::string arguments : {"", "chek", "check --bogus", "check --seed x", "check --jobs 0"})
    EXPECT_EQ(normgate(arguments).exit_code, 2) << arguments;
  const Ran kernel = normgate("check --kernel simd/layernorm");
  EXPECT_EQ(kernel.exit_code, 2);
  EXPECT_NE(kernel.text.find("no kernel is named simd/layernorm; nearest: simd/layer_norm"), std::string::npos);
  const Ran property = normgate("check --property acuracy");
  EXPECT_EQ(property.exit_code, 2);
  EXPECT_NE(property.text.find("nearest: accuracy"), std::string::npos);
  EXPECT_EQ(normgate("check --target avx9").exit_code, 2);
  EXPECT_EQ(normgate("check --json /no/such/folder/record.json").exit_code, 2);
  EXPECT_EQ(normgate("replay 'forward_training layer_nrm n=1'").exit_code, 2);
}

TEST_F(Command, ASoundKernelPasses) {
  const Ran ran = normgate("check --kernel plain/layer_norm --property accuracy");
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_NE(ran.text.find("PASSED on 1 of 1 target"), std::string::npos) << ran.text;
}

TEST_F(Command, AFindingNamesTheMistakeAndItsReplayLineRepeatsIt) {
  const Ran ran = normgate("check" + broken + "--kernel broken/one_pass_variance --property accuracy");
  EXPECT_EQ(ran.exit_code, 1) << ran.text;
  EXPECT_NE(row(ran.text, "looks like").find("NG_ONE_PASS"), std::string::npos) << ran.text;
  const std::string problem = row(ran.text, "case  ");
  std::string again = row(ran.text, "again ");
  ASSERT_EQ(again.find("normgate replay '" + problem + "' --kernel "), 0U) << ran.text;
  again.replace(0, std::string("normgate").size(), command);
  const Ran repeated = run_line(again);
  EXPECT_EQ(repeated.exit_code, 1) << repeated.text;
  for (const char* label : {"case  ", "at    ", "got   ", "want  ", "error "})
    EXPECT_EQ(row(repeated.text, label), row(ran.text, label)) << repeated.text;
}

TEST_F(Command, CrashesExitsAndHangsAreFindings) {
  const Ran crash = normgate("check" + broken + "--kernel broken/crash --property accuracy");
  EXPECT_EQ(crash.exit_code, 1);
  EXPECT_NE(crash.text.find("CRASHED on 1 of 1 target"), std::string::npos) << crash.text;
  const Ran exits = normgate("check" + broken + "--kernel broken/exits --property accuracy");
  EXPECT_EQ(exits.exit_code, 1);
  EXPECT_NE(exits.text.find("CRASHED on 1 of 1 target"), std::string::npos) << exits.text;
  const Ran hang = normgate("check" + broken + "--kernel broken/hang --property memory --timeout 0.25");
  EXPECT_EQ(hang.exit_code, 1);
  EXPECT_NE(hang.text.find("TIMED_OUT on 1 of 1 target"), std::string::npos) << hang.text;
}

TEST_F(Command, PluginsThatCannotBeLoadedAreExitCode3AndTheOthersAreTried) {
  for (const auto& entry : std::filesystem::directory_iterator(plugins + "/loading")) {
    const Ran ran = normgate("check --timeout 0.25 --wall-timeout 2 --plugin " + entry.path().string());
    EXPECT_EQ(ran.exit_code, 3) << entry.path();
    EXPECT_NE(ran.text.find(entry.path().filename().string()), std::string::npos) << ran.text;
  }
  const std::filesystem::path record = folder_ / "record.json";
  const Ran both = normgate("check --plugin /no/such/plugin.so --plugin " + plugins +
                            "/normgate_plain.so --kernel plain/rms_norm --property accuracy --json " + record.string());
  EXPECT_EQ(both.exit_code, 3);
  EXPECT_FALSE(read_json(record).at("units").empty());
}

TEST_F(Command, ARequiredTargetThatIsNotTriedIsNotPassed) {
  EXPECT_EQ(normgate("check --kernel plain/rms_norm --property accuracy --require-target default").exit_code, 0);
  EXPECT_EQ(normgate("check --kernel plain/rms_norm --property accuracy --require-target scalar").exit_code, 5);
}

TEST_F(Command, TheRecordDoesNotDependOnTheNumberOfProcesses) {
  nlohmann::json records[3];
  for (int jobs = 1; jobs <= 3; ++jobs) {
    const std::filesystem::path file = folder_ / "record.json";
    const Ran ran = normgate("check" + broken +
                             "--kernel broken/eps_ignored --kernel broken/momentum_reversed --kernel sound/welford "
                             "--kernel sound/refuses_odd_lengths --jobs " +
                             std::to_string(jobs) + " --json " + file.string());
    EXPECT_EQ(ran.exit_code, 1) << ran.text;
    nlohmann::json record = read_json(file);
    record.erase("seconds");
    record.erase("jobs");
    for (auto& unit : record.at("units")) unit.erase("seconds");
    records[jobs - 1] = record;
  }
  EXPECT_FALSE(records[0].at("units").empty());
  EXPECT_EQ(records[0], records[1]);
  EXPECT_EQ(records[0], records[2]);
}

// The command under a finding, run.
Ran run_again(const std::string& report) {
  std::string again = row(report, "again ");
  EXPECT_EQ(again.find("normgate "), 0U) << report;
  return run_line(command + again.substr(std::string("normgate").size()));
}

TEST_F(Command, AKernelIsNeverBlamedForWhatAnotherLeftInItsProcess) {
  const Ran ran = normgate("check" + mischief + "--kernel mischief/a_poisoner --kernel mischief/innocent --jobs 1");
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(ran.text.find("CRASHED"), std::string::npos) << ran.text;
}

TEST_F(Command, AFindingThatComesAndGoesIsRepeatedUntilItComes) {
  const Ran ran = normgate("check" + mischief + "--kernel mischief/flaky --property accuracy");
  EXPECT_EQ(ran.exit_code, 1) << ran.text;
  EXPECT_NE(row(ran.text, "again ").find(" --repeat "), std::string::npos) << ran.text;
  EXPECT_NE(row(ran.text, "looks like ").find("it failed again in 0 of 3 fresh processes; and in "), std::string::npos)
      << ran.text;
  const Ran again = run_again(ran.text);
  EXPECT_EQ(again.exit_code, 1) << again.text;
}

TEST_F(Command, AFindingThatNeedsOtherCasesBeforeItNamesTheCheckThatShowsIt) {
  const Ran ran = normgate("check" + mischief + "--kernel mischief/remembers --property accuracy --seed 3");
  EXPECT_EQ(ran.exit_code, 1) << ran.text;
  EXPECT_EQ(row(ran.text, "again ").find("normgate check --kernel mischief/remembers --target default"), 0U)
      << ran.text;
  EXPECT_NE(row(ran.text, "looks like ").find("this case alone did not fail again in a fresh process"),
            std::string::npos)
      << ran.text;
  const Ran again = run_again(ran.text);
  EXPECT_EQ(again.exit_code, 1) << again.text;
}

TEST_F(Command, ReplayRepeatsAsOftenAsItIsTold) {
  const std::string line =
      "replay 'forward_training layer_norm n=1 g=1 k=8 s=1'" + mischief + "--kernel mischief/flaky --property accuracy";
  EXPECT_EQ(normgate(line).exit_code, 0);
  EXPECT_EQ(normgate(line + " --repeat 6").exit_code, 0);
  EXPECT_EQ(normgate(line + " --repeat 7").exit_code, 1);
  EXPECT_EQ(normgate(line + " --repeat 0").exit_code, 2);
}

TEST_F(Command, OutputsThatCannotStandAreWrongUse) {
  const std::string check = "check --kernel plain/rms_norm --property accuracy ";
  const std::string file = (folder_ / "out").string();
  const Ran same = normgate(check + "--json " + file + " --junit " + file);
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_NE(same.text.find("is named for two outputs"), std::string::npos) << same.text;
  EXPECT_EQ(normgate(check + "--json " + file + " --junit " + folder_.string() + "/./out").exit_code, 2);
  EXPECT_EQ(normgate(check + "--json " + folder_.string()).exit_code, 2);
  EXPECT_EQ(normgate(check + "--junit ''").exit_code, 2);
  EXPECT_EQ(normgate(check + "--json " + file + " --dry-run").exit_code, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Command, QuietIsQuietOnStderr) {
  const Ran ran = run_line("(" + command + " check -q --kernel plain/rms_norm --property accuracy --jobs 2 >" +
                           (folder_ / "out").string() + ")");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.text, "");
}

TEST_F(Command, WhatOnlyItsOwnProcessesUseIsNotInTheHelp) {
  const Ran help = normgate("check --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.text.find("--jobs"), std::string::npos);
  for (const char* hidden : {"--shard", "--record", "--worker", "--grave-cases"})
    EXPECT_EQ(help.text.find(hidden), std::string::npos) << hidden;
}

// Processes that were started with `word` in their arguments.
std::size_t processes_with(const std::string& word) {
  std::size_t count = 0;
  std::error_code error;
  // Processes end while they are counted: what cannot be read is no longer there.
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    std::ifstream file(entry->path() / "cmdline", std::ios::binary);
    const std::string arguments{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (arguments.find(word) != std::string::npos) ++count;
  }
  return count;
}

TEST_F(Command, AnInterruptedRunLeavesNothingBehind) {
  const std::string plugin = (folder_ / "interrupted.so").string();
  std::filesystem::copy_file(plugins + "/normgate_plain.so", plugin);
  const std::string record = (folder_ / "record.json").string();
  const std::filesystem::path temporary = folder_ / "tmp";
  std::filesystem::create_directory(temporary);
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::signal(SIGINT, SIG_DFL);  // ignored in what a shell runs in the background
      ::setenv("TMPDIR", temporary.c_str(), 1);
      ::execl(command.c_str(), "normgate", "check", "-q", "--effort", "thorough", "--jobs", "2", "--plugin",
              plugin.c_str(), "--json", record.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    // The command, two gate processes, a worker of each.
    std::size_t seen = 0;
    for (int i = 0; i < 1000 && seen < 5; ++i) {
      ::usleep(10'000);
      seen = processes_with(plugin);
    }
    EXPECT_GE(seen, 5U);
    ::kill(child, signal);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    for (int i = 0; i < 500 && processes_with(plugin) > 0; ++i) ::usleep(10'000);
    EXPECT_EQ(processes_with(plugin), 0U);
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary));
  std::filesystem::remove(temporary);
  std::filesystem::remove(plugin);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Command, ADryRunCountsWhatTheRunTries) {
  const std::string arguments = "check --kernel plain/rms_norm --property scaling --jobs 1 ";
  const std::filesystem::path file = folder_ / "record.json";
  ASSERT_EQ(normgate(arguments + "--json " + file.string()).exit_code, 0);
  std::int64_t cases = 0;
  const nlohmann::json record = read_json(file);
  for (const auto& unit : record.at("units")) cases += unit.at("cases").get<std::int64_t>();
  const Ran dry = normgate(arguments + "--dry-run");
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_NE(dry.text.find(" units, " + std::to_string(cases) + " cases"), std::string::npos) << dry.text;
}

TEST_F(Command, AShrunkCaseEndsInShortValuesThatCanBePasted) {
  for (const std::string selection :
       {"--kernel broken/eps_ignored --property epsilon", "--kernel broken/gamma_abs --property accuracy"}) {
    const Ran ran = normgate("check" + broken + selection);
    ASSERT_EQ(ran.exit_code, 1) << ran.text;
    const std::string problem = row(ran.text, "case  ");
    const std::string in = row(ran.text, "in    ");
    EXPECT_EQ(in.find("float x[] = {"), 0U) << ran.text;
    EXPECT_EQ(in.back(), ';') << ran.text;
    // The same values in the line, which is all that a replay needs.
    const std::size_t start = problem.find(" values=x:[");
    ASSERT_NE(start, std::string::npos) << problem;
    const std::size_t from = start + std::string(" values=x:[").size();
    std::string values = problem.substr(from, problem.find(']', from) - from);
    for (std::size_t comma = 0; (comma = values.find(',', comma)) != std::string::npos; comma += 2)
      values.replace(comma, 1, ", ");
    EXPECT_EQ(in.find("float x[] = {" + values + "}"), 0U) << ran.text;
    EXPECT_EQ(problem.find("profile="), std::string::npos) << problem;
    // At most three digits each.
    std::istringstream numbers(values);
    for (std::string number; std::getline(numbers, number, ',');) {
      std::array<char, 32> short_form{};
      std::snprintf(short_form.data(), short_form.size(), "%.3g", std::strtod(number.c_str(), nullptr));
      EXPECT_EQ(std::strtof(short_form.data(), nullptr), std::strtof(number.c_str(), nullptr)) << values;
    }
    EXPECT_EQ(run_again(ran.text).exit_code, 1) << ran.text;
  }
}

TEST_F(Command, TheCatalogueNamesThePiecesOfEachProperty) {
  const std::string catalogue = normgate("list --properties").text;
  const std::string names = normgate("list properties").text;
  // Each name with its sentence and at least one piece below it.
  std::istringstream lines(names);
  int properties = 0;
  for (std::string line; std::getline(lines, line); ++properties) {
    const std::size_t space = line.find("  ");
    const std::string entry = line.substr(0, space) + "\n  " + line.substr(space + 2) + "\n    broken/";
    EXPECT_NE(catalogue.find(entry), std::string::npos) << line;
  }
  EXPECT_GT(properties, 20);
  EXPECT_NE(catalogue.find("\n    broken/one_pass_variance  looks like one-pass variance\n"), std::string::npos);
  EXPECT_EQ(normgate("list --properties kernels").exit_code, 2);
  // It needs no plugin.
  std::filesystem::create_directory(folder_ / "bin");
  std::filesystem::copy_file(command, folder_ / "bin" / "normgate");
  const Ran alone = run_line((folder_ / "bin" / "normgate").string() + " list --properties");
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(alone.text, catalogue);
}

TEST_F(Command, WhatNothingExplainsIsSaid) {
  const Ran ran = normgate("check" + broken + "--kernel broken/last_lane_not_reduced --property accuracy");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(row(ran.text, "looks like ").find("nothing that is known here: "), 0U) << ran.text;
}

TEST_F(Command, TheCoverageOfThePlanIsPrintedAndWhole) {
  const Ran ran = normgate("check --dry-run --coverage --kernel simd/layer_norm --kernel plain/batch_norm");
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_NE(ran.text.find("\nsimd/layer_norm  forward_training  "), std::string::npos) << ran.text;
  EXPECT_NE(ran.text.find("\nplain/batch_norm  backward_training  "), std::string::npos) << ran.text;
  EXPECT_NE(row(ran.text, "  profile, length modulo 64 ").find("640 of 640"), std::string::npos) << ran.text;
  EXPECT_EQ(ran.text.find("missing"), std::string::npos) << ran.text;
  // A part of the properties covers less, and says what it leaves out.
  const Ran part = normgate("check --dry-run --coverage --kernel simd/layer_norm --property determinism");
  EXPECT_NE(part.text.find("    missing: "), std::string::npos) << part.text;
  EXPECT_EQ(normgate("check --coverage").exit_code, 2);
}

TEST_F(Command, TheSelfCheckTellsCasesTimeAndDiagnosisOfEachPiece) {
  const std::filesystem::path file = folder_ / "check.json";
  const Ran ran =
      normgate("self-check --kernel broken/one_pass_variance --kernel broken/crash --json " + file.string());
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_NE(ran.text.find("\ncaught    broken/one_pass_variance"), std::string::npos) << ran.text;
  EXPECT_NE(ran.text.find("looks like one-pass variance"), std::string::npos) << ran.text;
  EXPECT_NE(row(ran.text, "until caught: median "), "") << ran.text;
  EXPECT_NE(row(ran.text, "diagnoses: "), "") << ran.text;
  const nlohmann::json check = read_json(file);
  EXPECT_EQ(check.at("totals").at("caught"), 2);
  EXPECT_EQ(check.at("totals").at("pieces"), 2);
  for (const auto& piece : check.at("pieces")) {
    EXPECT_TRUE(piece.at("rejected").get<bool>()) << piece;
    EXPECT_GT(piece.at("cases").get<int>(), 0) << piece;
    EXPECT_GT(piece.at("seconds").get<double>(), 0) << piece;
    EXPECT_EQ(piece.at("diagnosed").get<bool>(), piece.at("diagnosis") == piece.at("expected_diagnosis")) << piece;
  }
}

TEST_F(Command, ReplayPrintsSmallProblemsAndDumpsThem) {
  const std::filesystem::path file = folder_ / "tensors.txt";
  const Ran ran = normgate(
      "replay 'forward_training batch_norm n=4 g=1 k=1 s=1 eps=0 values=x:[2,4,6,8];gamma:[2];beta:[1]' "
      "--kernel plain/batch_norm --property accuracy --dump " +
      file.string());
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_NE(ran.text.find("in   x 2 4 6 8\n"), std::string::npos) << ran.text;
  EXPECT_NE(ran.text.find("want y -1.68328157 0.105572809 1.89442719 3.68328157\n"), std::string::npos) << ran.text;
  EXPECT_TRUE(std::filesystem::exists(file));
}

// ---- a plugin with a backward kernel alone -------------------------------------------------------------------------

TEST_F(Command, ASoundBackwardPasses) {
  const std::filesystem::path file = folder_ / "record.json";
  const Ran ran =
      normgate("check" + gradient + "--kernel gradient/sound --kernel gradient/in_place --json " + file.string());
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_NE(ran.text.find("PASSED on 1 of 1 target"), std::string::npos) << ran.text;
  // What an undeclared use may be is told, since declaring it sharpens the gate.
  EXPECT_NE(ran.text.find("the use of saved statistics (what fits: NG_USE_SHORT"), std::string::npos) << ran.text;
  const nlohmann::json record = read_json(file);
  std::set<std::string> outputs;
  for (const auto& unit : record.at("units")) {
    EXPECT_EQ(unit.at("phase"), "backward_training");
    EXPECT_EQ(unit.at("verdict"), "PASSED");
    if (unit.at("property") == "gradients") outputs.insert(unit.at("worst").at("output"));
  }
  EXPECT_FALSE(outputs.empty());
  for (const std::string& output : outputs) EXPECT_TRUE(output == "dx" || output == "dgamma" || output == "dbeta");
}

TEST_F(Command, WhatABackwardDoesNotClaimIsToldInItsOwnWords) {
  const Ran sound = normgate("check" + gradient + "--kernel gradient/sound --property determinism");
  EXPECT_EQ(sound.exit_code, 0) << sound.text;
  const std::string all = row(sound.text, "not claimed, not tested: ");
  EXPECT_EQ(
      all,
      "forward_training, forward_inference, backward_inference, statistics, merge_statistics, double_backward, the "
      "use of saved statistics, dx over dy, channels last, padding, strides, mixed layouts, expanded dy, threads, row "
      "independence, batch invariance, scale covariance, infinities, layout invariance, invariance to the "
      "caller's FTZ and DAZ (gradient/sound)");
  const Ran in_place = normgate("check" + gradient + "--kernel gradient/in_place --property determinism");
  const std::string other = row(in_place.text, "not claimed, not tested: ");
  EXPECT_EQ(other.find("dx over dy"), std::string::npos) << other;
  EXPECT_EQ(other.find("the use of saved statistics"), std::string::npos) << other;
}

TEST_F(Command, EachWrongBackwardIsFoundAndItsCommandRepeatsIt) {
  struct Wrong {
    const char *kernel, *property, *at, *looks_like;
  };
  const Wrong wrong[] = {
      {"mean_term_forgotten", "gradients", "dx[", "dx without the term mean(dy*gamma)"},
      {"xhat_term_forgotten", "gradients", "dx[", "dx without the term xhat*mean(dy*gamma*xhat)"},
      {"dgamma_of_x", "gradients", "dgamma[", "dgamma sums dy*x, not dy*xhat"},
      {"last_row_lost", "gradients", "d", "the last sample is not reduced into d"},
      {"adds_to_dbeta", "gradients", "dbeta[", "NG_GRADIENTS_ACCUMULATE"},
      {"adds_to_dbeta", "memory", "dbeta", ""},
      {"mean_term_forgotten", "gradient_identities", "dx", ""},
      {"xhat_term_forgotten", "finite_differences", "dx[", ""},
      {"last_row_lost", "split_rows", "d", ""},
  };
  for (const Wrong& each : wrong) {
    const Ran ran = normgate("check" + gradient + "--kernel gradient/" + each.kernel + " --property " + each.property);
    EXPECT_EQ(ran.exit_code, 1) << each.kernel << "\n" << ran.text;
    EXPECT_EQ(row(ran.text, "at    ").find(each.at), 0U) << ran.text;
    EXPECT_NE(row(ran.text, "looks like ").find(each.looks_like), std::string::npos) << ran.text;
    // Shrunk in the kernel's own phase, to a problem that can be read.
    const std::string problem = row(ran.text, "case  ");
    EXPECT_EQ(problem.find("backward_training layer_norm "), 0U) << ran.text;
    EXPECT_NE(problem.find(" saved=1"), std::string::npos) << ran.text;
    const Ran again = run_again(ran.text);
    EXPECT_EQ(again.exit_code, 1) << again.text;
    for (const char* label : {"case  ", "at    ", "got   ", "want  ", "error "})
      EXPECT_EQ(row(again.text, label), row(ran.text, label)) << again.text;
    // The concrete values stand above.
    EXPECT_NE(again.text.find("in   dy "), std::string::npos) << again.text;
    EXPECT_NE(again.text.find("want dx "), std::string::npos) << again.text;
  }
  const Ran writes = normgate("check" + gradient + "--kernel gradient/writes_over_dy --property gradients");
  EXPECT_EQ(writes.exit_code, 1);
  EXPECT_NE(row(writes.text, "got   ").find("wrote to the input dy[0,0,0,0]"), std::string::npos) << writes.text;
}

TEST_F(Command, ReplayOfABackwardLineSaysWhichGradientsItWants) {
  const std::string line =
      "replay 'backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 eps=3 "
      "values=x:[1,3];gamma:[2,4];mean:[2];stat:[0.5];dy:[1,0]' --property gradients" +
      gradient;
  // r = 1/2, xhat = -1/2 and 1/2, g = 2 and 0: mean(g) = 1, mean(g*xhat) = -1/2.
  const std::string values =
      "in   x 1 3\nin   gamma 2 4\nin   mean 2\nin   stat 0.5\nin   dy 1 0\nwant dx 0.375 -0.375\n"
      "want dgamma -0.5 0\nwant dbeta 1 0\n";
  const std::filesystem::path file = folder_ / "tensors.txt";
  const Ran declared = normgate(line + "--kernel gradient/in_place --dump " + file.string());
  EXPECT_EQ(declared.exit_code, 0) << declared.text;
  EXPECT_EQ(declared.text.find(values + "note the wanted gradients are what NG_USE_SHORT makes of the handed"), 0U)
      << declared.text;
  std::ifstream dumped(file);
  const std::string dump{std::istreambuf_iterator<char>(dumped), std::istreambuf_iterator<char>()};
  EXPECT_EQ(dump.find("backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 eps=3 values="), 0U) << dump;
  for (const char* part : {"\nin   mean 0x1p+1\n", "\nin   dy 0x1p+0 0x0p+0\n", "\nwant dx 0x1.8p-2 -0x1.8p-2\n",
                           "\nwant dgamma -0x1p-1 0x0p+0\n", "\nwant dbeta 0x1p+0 0x0p+0\n"})
    EXPECT_NE(dump.find(part), std::string::npos) << part << dump;
  const Ran undeclared = normgate(line + "--kernel gradient/sound");
  EXPECT_EQ(undeclared.text.find(values + "note the wanted gradients are the derivative of the forward"), 0U)
      << undeclared.text;
}

TEST_F(Command, ALineThatABackwardCannotTakeIsWrongUseWithTheReason) {
  const auto sentence = [&](const std::string& line) {
    const Ran ran = normgate("replay '" + line + "'" + gradient + "--kernel gradient/sound");
    EXPECT_EQ(ran.exit_code, 2) << ran.text;
    return ran.text;
  };
  const auto says = [&](const std::string& line, const std::string& what) {
    const std::string text = sentence(line);
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  says("backward_training layer_norm n=2 k=3", "gradient/sound requires mean, which the line does not have");
  says("backward_training layer_norm n=2 k=3 saved=1 from_output=1",
       "gradient/sound does not work from y (NG_USE_FROM_OUTPUT), and from_output is 1");
  says("backward_inference layer_norm n=2 k=3 given=saved", "it needs variant layer_norm, phase backward_inference");
  says("forward_training layer_norm n=2 k=3", "it needs variant layer_norm, phase forward_training");
  says("backward_training layer_norm n=2 k=3 from_output=1", "only with saved=1");
  says("backward_training layer_norm n=2 k=3 saved=1 dy.layout=ngks", "any with cotangent=ones");
  says("backward_training layer_norm n=2 k=3 saved=1 cotangent=one", "the nearest is ones");
}

TEST_F(Command, APhaseIsSelectedByItsName) {
  const Ran backward = normgate("check --dry-run" + gradient + "--kernel gradient/sound --phase backward_training");
  EXPECT_EQ(backward.exit_code, 0);
  EXPECT_NE(backward.text.find("gradient/sound  default  backward_training  pytorch  gradients  "), std::string::npos)
      << backward.text;
  EXPECT_EQ(backward.text.find("accuracy"), std::string::npos) << backward.text;
  const Ran forward = normgate("check" + gradient + "--kernel gradient/sound --phase forward_training");
  EXPECT_EQ(forward.exit_code, 4) << forward.text;
  const Ran wrong = normgate("check" + gradient + "--phase backward_trianing");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.text.find("backward_training"), std::string::npos) << wrong.text;
}

TEST_F(Command, TheDoctorCallsABackwardInItsOwnPhase) {
  const Ran doctor = normgate("doctor" + gradient);
  EXPECT_EQ(doctor.exit_code, 0) << doctor.text;
  EXPECT_NE(doctor.text.find("ok   worker       gradient on default\n"), std::string::npos) << doctor.text;
  const Ran list = normgate("list kernels" + gradient);
  EXPECT_NE(list.text.find("gradient/sound  layer_norm  backward_training  pytorch\n"), std::string::npos) << list.text;
  EXPECT_EQ(normgate("list cotangents").text, "random\nones\npooled\nnormalized\nmixed\nunit\n");
}

TEST_F(Command, InProcessJudgesTheSame) {
  EXPECT_EQ(normgate("check --in-process --kernel plain/layer_norm --property accuracy").exit_code, 0);
  EXPECT_EQ(normgate("check --in-process" + broken + "--kernel broken/eps_ignored --property epsilon").exit_code, 1);
}

TEST_F(Command, ListsAndTheDoctorHaveSomethingToSay) {
  EXPECT_NE(normgate("list properties").text.find("accuracy  "), std::string::npos);
  EXPECT_NE(normgate("list kernels").text.find("simd/layer_norm"), std::string::npos);
  EXPECT_NE(normgate("list").text.find("conventions:\n"), std::string::npos);
  const Ran doctor = normgate("doctor");
  EXPECT_EQ(doctor.exit_code, 0) << doctor.text;
  EXPECT_NE(doctor.text.find("ok   fences"), std::string::npos) << doctor.text;
}

TEST_F(Command, AnAuditTellsWhatItSawOfEachOutput) {
  const std::string record = (folder_ / "audit.json").string();
  const Ran ran = normgate("audit --kernel plain/layer_norm --phase backward_training --json " + record);
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  for (const char* part :
       {"of its own forward's", "plain/layer_norm  backward_training  dx ",
        "plain/layer_norm  backward_training  dgamma ", "plain/layer_norm  backward_training  dbeta ",
        "layer_norm  2.000        4.000             6.000", "seen by dx of layer_norm", "chosen by the model",
        "PASSED on 1 of 1 target"})
    EXPECT_NE(ran.text.find(part), std::string::npos) << part << "\n" << ran.text;
  const nlohmann::json audit = read_json(record).at("audit");
  EXPECT_EQ(audit.at("witness").size(), 3U);
  EXPECT_EQ(audit.at("curves").size(), 1U);
  EXPECT_EQ(audit.at("jacobians").at(0).at("error").size(), 144U);
  const Ran wrong = normgate("audit -q" + broken + "--kernel broken/dx_without_xhat_term");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.text;
  EXPECT_NE(row(wrong.text, "looks like").find("without the term xhat*mean"), std::string::npos) << wrong.text;
}

TEST_F(Command, AnAuditOfSomethingElseIsWrongUse) {
  const Ran property = normgate("audit --property accuracy");
  EXPECT_EQ(property.exit_code, 2);
  EXPECT_NE(property.text.find("'accuracy' is not about gradients"), std::string::npos) << property.text;
  EXPECT_EQ(normgate("audit --phase forward_training").exit_code, 2);
  EXPECT_EQ(normgate("audit --kernel plain/layernorm").exit_code, 2);
  EXPECT_EQ(normgate("audit --json /no/such/folder/record.json").exit_code, 2);
  EXPECT_EQ(normgate("audit --plugin /no/such/plugin.so").exit_code, 3);
  // A kernel without gradients has nothing to audit.
  EXPECT_EQ(normgate("audit -q" + mischief).exit_code, 4);
}

// Without a reference, by its own forward alone: also where that is another kernel.
TEST_F(Command, ACustomKernelIsAuditedByItsOwnForward) {
  const Ran sound = normgate("audit" + custom + "--kernel custom/sound");
  EXPECT_EQ(sound.exit_code, 0) << sound.text;
  EXPECT_NE(sound.text.find("bounds are estimated"), std::string::npos) << sound.text;
  for (const std::string kernel : {"term_missing", "factor_wrong", "tail_lost", "swapped"}) {
    const Ran wrong = normgate("check -q" + custom + "--kernel custom/" + kernel);
    EXPECT_EQ(wrong.exit_code, 1) << wrong.text;
    EXPECT_NE(wrong.text.find("FAIL  self_consistency"), std::string::npos) << wrong.text;
    EXPECT_NE(row(wrong.text, "want  ").find("(estimated)"), std::string::npos) << wrong.text;
    std::string again = row(wrong.text, "again ");
    again.replace(0, std::string("normgate").size(), command);
    EXPECT_EQ(run_line(again).exit_code, 1) << again;
  }
}

TEST_F(Command, ProveSaysThatTheTiersAgree) {
  const Ran ran = normgate("prove --problems 300 --seed 2");
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_NE(
      ran.text.find("\nAGREE: 300 problems, 30 built backwards from a boundary; no disagreement between tiers, no "
                    "undecided rounding\n"),
      std::string::npos)
      << ran.text;
  EXPECT_NE(row(ran.text, "worst tightness (certificate / true error): "), "");
  EXPECT_EQ(normgate("prove --problems 300 --seed 2 --jobs 1").text, ran.text);
  // The problem where it was tightest, by its own line.
  const std::string again = row(ran.text, "  normgate prove ");
  const Ran one = normgate("prove " + again);
  EXPECT_EQ(one.exit_code, 0) << one.text;
  EXPECT_EQ(row(one.text, "worst tightness (certificate / true error): "),
            row(ran.text, "worst tightness (certificate / true error): "));
  EXPECT_EQ(row(one.text, "  normgate prove "), again);
  for (const std::string arguments :
       {"prove --problems 0", "prove --problem nonsense", "prove --use textbook", "prove --problem x --seed 3",
        "prove --problem 'forward_training layer_norm n=1 g=1 k=2 s=1' --format float64"})
    EXPECT_EQ(normgate(arguments).exit_code, 2) << arguments;
}

TEST_F(Command, TheBenchmarkOfTheReferenceNamesItsRows) {
  const std::filesystem::path file = folder_ / "bench.json";
  const Ran ran = normgate(
      "bench reference --quick --variant rms_norm --phase forward_inference --phase backward_training "
      "--length 64 --json " +
      file.string());
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  const nlohmann::json rows = read_json(file).at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("phase"), "forward_inference");
  EXPECT_EQ(rows[1].at("phase"), "backward_training");
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row.at("variant"), "rms_norm");
    EXPECT_EQ(row.at("n"), 64);
    for (const char* key : {"certified_ns", "certified_stored_ns", "cpp_bin_float_50_ns", "mpfr_50_ns", "kernel_ns"})
      EXPECT_GT(row.at(key).get<double>(), 0) << key;
    EXPECT_EQ(row.at("kernel"), "simd/rms_norm");
    EXPECT_NE(ran.text.find("rms_norm"), std::string::npos);
  }
}

TEST_F(Command, WrongBenchmarksAreExitCode2) {
  for (const std::string arguments :
       {"bench", "bench nothing", "bench reference --variant layernorm", "bench reference --phase forward",
        "bench reference --length 0", "bench reference --length x", "bench reference --quick 3",
        "bench reference --kernel simd/layernorm", "bench reference --json /no/such/folder/bench.json"})
    EXPECT_EQ(normgate(arguments).exit_code, 2) << arguments;
}

}  // namespace
