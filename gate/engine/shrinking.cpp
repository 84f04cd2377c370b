// Shrinking under a budget, diagnosis, and the rows of a finding.
#include "gate/engine/shrinking.hpp"

#include <fmt/format.h>

#include <chrono>

#include "gate/engine/diagnosis.hpp"
#include "gate/engine/names.hpp"
#include "properties/generators/shrink.hpp"

namespace normgate {
namespace {

constexpr int tries_at_most = 200;
// The tensors that the kernel's manifest demands stay; what it does not support is never added by a smaller problem.
bool within_claim(const Problem& problem, const runner::KernelInfo& kernel) {
  const std::uint64_t required = kernel.roles[static_cast<std::size_t>(problem.phase)].required;
  for (std::size_t role = 0; role < role_count; ++role)
    if (((required >> role) & 1U) != 0 && !use_of(problem, static_cast<Role>(role)).present()) return false;
  return true;
}

Verdict verdict_of(CaseEnd end) {
  switch (end) {
    case CaseEnd::violated:
      return Verdict::failed;
    case CaseEnd::crashed:
      return Verdict::crashed;
    case CaseEnd::timed_out:
      return Verdict::timed_out;
    default:
      return Verdict::passed;
  }
}

class Explainer {
 public:
  Explainer(const FailedUnit& failed, const RunOptions& options, GraveBudget& budget)
      : failed_(failed), options_(options), budget_(budget) {}

  FindingRows explain(std::span<const std::string> hints) {
    const ProblemOrError parsed = parse_problem(failed_.failure.problem);
    if (!parsed.problem) return plain_finding(failed_.property, failed_.unit, failed_.failure, options_);
    const bool grave = failed_.failure.verdict != Verdict::failed;
    // A crash was seen; it is repeated only to make it smaller.
    if (grave && (!options_.shrink || !budget_.left()))
      return plain_finding(failed_.property, failed_.unit, failed_.failure, options_);

    Case original(*parsed.problem);
    const TriedCase tried = attempt(original);
    if (verdict_of(tried.result.end) != failed_.failure.verdict) {
      FindingRows rows = plain_finding(failed_.property, failed_.unit, failed_.failure, options_);
      if (rows.looks_like.empty())
        rows.looks_like = "a result that depends on more than the call: the case did not fail again when repeated";
      if (rows.diagnosis.empty()) rows.diagnosis = "not repeatable";
      return rows;
    }
    diagnosis_ = tried.result.violation.diagnosis;
    if (diagnosis_.empty() && !grave) {
      if (const auto explanation = explanation_of(tried, {})) diagnosis_ = explanation->diagnosis;
    }

    Problem problem = *parsed.problem;
    if (options_.shrink) {
      const auto go_on = [&] { return !grave || budget_.left(); };
      const auto still_fails = [&](const Problem& candidate) { return fails_alike(candidate); };
      bool hinted = false;
      for (const std::string& hint : hints) {
        const ProblemOrError other = parse_problem(hint);
        if (!other.problem || !go_on() || !fails_alike(*other.problem)) continue;
        problem = *other.problem;
        hinted = true;
        break;
      }
      if (!hinted) problem = smallest(problem, still_fails, tries_at_most, go_on).problem;
    }

    Failure shown = failed_.failure;
    std::optional<Explanation> explanation;
    if (problem == *parsed.problem) {
      shown.violation = tried.result.violation;
      if (!grave) explanation = explanation_of(tried, diagnosis_);
    } else {
      const TriedCase last = attempt(Case(problem));
      shown.problem = print(problem);
      shown.violation = last.result.violation;
      if (!grave) explanation = explanation_of(last, diagnosis_);
    }
    FindingRows rows = plain_finding(failed_.property, failed_.unit, shown, options_);
    if (rows.looks_like.empty() && explanation) rows.looks_like = explanation->looks_like;
    if (diagnosis_.empty() && explanation) diagnosis_ = explanation->diagnosis;
    if (!diagnosis_.empty()) rows.diagnosis = diagnosis_;
    return rows;
  }

  std::optional<FindingRows> explain_by(const ExplainedLine& line) {
    const ProblemOrError parsed = parse_problem(line.problem);
    if (!parsed.problem || !within_claim(*parsed.problem, failed_.subject.kernel)) return std::nullopt;
    const TriedCase tried = attempt(Case(*parsed.problem));
    if (tried.result.end != CaseEnd::violated) return std::nullopt;
    auto explanation = explanation_of(tried, line.diagnosis);
    if (!explanation) return std::nullopt;
    diagnosis_ = line.diagnosis;
    const auto still_fails = [&](const Problem& candidate) { return fails_alike(candidate); };
    const Problem problem = smallest(*parsed.problem, still_fails, tries_at_most, [] { return true; }).problem;
    const TriedCase last = attempt(Case(problem));
    if (const auto better = explanation_of(last, diagnosis_)) explanation = better;
    Failure shown = failed_.failure;
    shown.problem = print(problem);
    shown.violation = last.result.violation;
    FindingRows rows = plain_finding(failed_.property, failed_.unit, shown, options_);
    rows.looks_like = explanation->looks_like;
    rows.diagnosis = line.diagnosis;
    return rows;
  }

 private:
  TriedCase attempt(const Case& one_case) {
    const Door door = [&](std::span<const runner::Call> calls) { return failed_.station.run(calls); };
    const std::int64_t restarts = failed_.station.restarts();
    const auto start = std::chrono::steady_clock::now();
    TriedCase tried = try_case(failed_.property, one_case, failed_.subject, door);
    if (failed_.failure.verdict != Verdict::failed) {
      budget_.restarts -= failed_.station.restarts() - restarts;
      budget_.seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return tried;
  }

  // The explanation of the first call of a case that one is found for.
  std::optional<Explanation> explanation_of(const TriedCase& tried, std::string_view only) {
    for (std::size_t i = 0; i < tried.outcomes.size(); ++i) {
      if (tried.outcomes[i].status != runner::Status::ok) continue;
      if (auto explanation =
              diagnose(tried.calls[i].problem, tried.calls[i].inputs, failed_.subject, tried.outcomes[i], only))
        return explanation;
    }
    return std::nullopt;
  }

  bool fails_alike(const Problem& candidate) {
    if (!within_claim(candidate, failed_.subject.kernel)) return false;
    const TriedCase tried = attempt(Case(candidate));
    if (verdict_of(tried.result.end) != failed_.failure.verdict) return false;
    if (failed_.failure.verdict != Verdict::failed || diagnosis_.empty()) return true;
    if (!tried.result.violation.diagnosis.empty()) return tried.result.violation.diagnosis == diagnosis_;
    return explanation_of(tried, diagnosis_).has_value();
  }

  const FailedUnit& failed_;
  const RunOptions& options_;
  GraveBudget& budget_;
  std::string diagnosis_;
};

}  // namespace

std::string replay_command(const std::string& line, const Unit& unit, const RunOptions& options) {
  std::string command = fmt::format("normgate replay '{}' --kernel {} --target {} --property {}", line,
                                    shell_word(unit.kernel), shell_word(unit.target), shell_word(unit.property));
  const auto& built_in = options.built_in_plugins;
  if (std::find(built_in.begin(), built_in.end(), unit.plugin) == built_in.end())
    command += " --plugin " + shell_word(unit.plugin);
  return command;
}

FindingRows plain_finding(const Property& property, const Unit& unit, const Failure& failure,
                          const RunOptions& options) {
  const Violation& violation = failure.violation;
  FindingRows rows;
  rows.says = std::string(property.sentence);
  rows.problem = failure.problem;
  rows.at = violation.at;
  rows.got = violation.got;
  rows.want = violation.want;
  rows.error = violation.error;
  rows.looks_like = violation.looks_like;
  rows.diagnosis = violation.diagnosis;
  rows.again = replay_command(failure.problem, unit, options);
  return rows;
}

FindingRows explain_failure(const FailedUnit& failed, const RunOptions& options, std::span<const std::string> hints,
                            GraveBudget& budget) {
  return Explainer(failed, options, budget).explain(hints);
}

std::optional<FindingRows> explain_by_another(const FailedUnit& failed, const RunOptions& options,
                                              std::span<const ExplainedLine> lines, GraveBudget& budget) {
  for (const ExplainedLine& line : lines)
    if (auto rows = Explainer(failed, options, budget).explain_by(line)) return rows;
  return std::nullopt;
}

}  // namespace normgate
