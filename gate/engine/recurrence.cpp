// Trying a reported case again, and the command that repeats it.
#include "gate/engine/recurrence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "gate/engine/names.hpp"

namespace normgate {
namespace {

constexpr std::string_view not_repeatable = "not repeatable";
constexpr std::int64_t fresh_tries = 3;
constexpr std::int64_t repeated_tries = 100;
constexpr double repeated_seconds = 2;
constexpr double plan_seconds = 5;

bool is_failure(CaseEnd end) {
  return end == CaseEnd::violated || end == CaseEnd::crashed || end == CaseEnd::timed_out;
}

class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  [[nodiscard]] bool over() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() > seconds_;
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// So many repetitions that the failure is missed in one of a million runs, if the rate seen is at most three times too
// large (few failures tell little about their rate).
std::int64_t repetitions_for(const Recurrence& recurrence) {
  const std::int64_t failures = recurrence.failed_fresh + recurrence.failed_repeated;
  const std::int64_t tries = recurrence.fresh + recurrence.repeated;
  const double rate = static_cast<double>(failures) / static_cast<double>(tries) / 3;
  return std::clamp<std::int64_t>(std::llround(std::ceil(13.8 / rate)), 20, 5000);
}

void add_sentence(std::string& text, const std::string& more) { text += (text.empty() ? "" : "; ") + more; }

}  // namespace

std::string check_command(const Unit& unit, const RunOptions& options, bool whole_kernel) {
  std::string command =
      fmt::format("normgate check --kernel {} --target {}", shell_word(unit.kernel), shell_word(unit.target));
  if (!whole_kernel) command += fmt::format(" --phase {} --property {}", unit.phase, shell_word(unit.property));
  command += fmt::format(" --effort {} --seed {} --jobs 1", name_of(options.effort), options.seed);
  const auto& built_in = options.built_in_plugins;
  if (std::find(built_in.begin(), built_in.end(), unit.plugin) == built_in.end())
    command += " --plugin " + shell_word(unit.plugin);
  return command;
}

void tell_recurrence(const Recurrence& recurrence, const Unit& unit, const RunOptions& options, FindingRows& rows) {
  if (recurrence.fresh == 0 || recurrence.always()) return;
  if (rows.diagnosis.empty()) rows.diagnosis = not_repeatable;
  if (recurrence.failed_fresh + recurrence.failed_repeated > 0) {
    add_sentence(rows.looks_like,
                 fmt::format("it failed again in {} of {} fresh processes", recurrence.failed_fresh, recurrence.fresh));
    if (recurrence.repeated > 0)
      add_sentence(rows.looks_like, fmt::format("and in {} of {} repetitions in one process",
                                                recurrence.failed_repeated, recurrence.repeated));
    rows.again =
        fmt::format("{} --repeat {}", replay_command(rows.problem, unit, options), repetitions_for(recurrence));
    return;
  }
  add_sentence(rows.looks_like,
               recurrence.plan_failed
                   ? "this case alone did not fail again in a fresh process; the cases of the property, tried in their "
                     "order in one process, did: calls before it leave something behind, or it is a race"
                   : "it did not fail again in a fresh process, alone or behind the other cases of the property: calls "
                     "before it leave something behind, or it is a race");
  rows.again = check_command(unit, options, !recurrence.plan_failed);
}

void confirm(const FailedUnit& failed, const RunOptions& options, FindingRows& rows) {
  if (failed.failure.verdict == Verdict::timed_out || options.runner.in_process) return;
  const ProblemOrError parsed = parse_problem(rows.problem);
  if (!parsed.problem) return;
  const Door door = [&](std::span<const runner::Call> calls) { return failed.station.run(calls); };
  const auto fails = [&](const Case& one_case) {
    return is_failure(try_case(failed.property, one_case, failed.subject, door).result.end);
  };
  const std::int32_t kernel = failed.subject.kernel.index;
  const Case shown(*parsed.problem);
  Recurrence recurrence;
  // The explanation began in a fresh process too, and the case did not fail there.
  if (rows.diagnosis == not_repeatable) recurrence.fresh = 1;
  for (; recurrence.fresh < fresh_tries; ++recurrence.fresh) {
    failed.station.start_afresh(kernel);
    recurrence.failed_fresh += fails(shown) ? 1 : 0;
  }
  if (recurrence.always()) return;
  failed.station.start_afresh(kernel);
  for (const Deadline deadline(repeated_seconds); recurrence.repeated < repeated_tries && !deadline.over();
       ++recurrence.repeated)
    recurrence.failed_repeated += fails(shown) ? 1 : 0;
  if (recurrence.failed_fresh + recurrence.failed_repeated == 0) {
    failed.station.start_afresh(kernel);
    const Deadline deadline(plan_seconds);
    for (const Problem& problem : failed.property.plan(failed.subject, options.effort, options.seed)) {
      if (deadline.over()) break;
      recurrence.plan_failed = fails(Case(problem));
      if (recurrence.plan_failed) break;
    }
  }
  tell_recurrence(recurrence, failed.unit, options, rows);
}

}  // namespace normgate
