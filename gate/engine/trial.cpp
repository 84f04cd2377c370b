// Judging a case, and the verdict of a unit from its cases.
#include "gate/engine/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <tuple>

#include "properties/judging.hpp"

namespace normgate {
namespace {

// Ends a case from inside a property: one of the calls that it made did not come back with outputs.
struct CaseEnded {
  CaseResult result;
};

std::string findings_of(const runner::Outcome& outcome) {
  std::string text;
  for (const runner::Finding& finding : outcome.findings) {
    if (!text.empty()) text += "; ";
    text += finding.sentence;
  }
  return text;
}

// "read 4 bytes past the end of x" without its numbers: "read past the end of x", the same on every target.
std::string without_numbers(std::string_view sentence) {
  std::string result;
  std::istringstream words{std::string(sentence.substr(0, sentence.find_first_of("(:")))};
  for (std::string word; words >> word;) {
    if (word.find_first_of("0123456789") != std::string::npos || word == "bytes" || word == "byte") continue;
    result += (result.empty() ? "" : " ") + word;
  }
  return result;
}

// What an outcome without outputs means for its case; nothing if it has outputs.
std::optional<CaseResult> end_of(const runner::Outcome& outcome) {
  CaseResult result;
  Violation& violation = result.violation;
  const std::string findings = findings_of(outcome);
  violation.want = "a return with status ok";
  switch (outcome.status) {
    case runner::Status::ok:
      return std::nullopt;
    case runner::Status::unsupported:
      if (!findings.empty()) {
        result.end = CaseEnd::violated;
        violation.got = fmt::format("the kernel declined the call and {}", findings);
        violation.want = "everything as it was before";
        violation.diagnosis = "touched something in a refusal";
        for (const runner::Finding& finding : outcome.findings)
          if (finding.kind == runner::FindingKind::environment) violation.diagnosis = "environment not restored";
        return result;
      }
      if (outcome.may_be_refused) return std::nullopt;
      result.end = CaseEnd::refused;
      result.reason = outcome.text.empty() ? "no reason given" : outcome.text;
      return result;
    case runner::Status::no_memory:
      result.end = CaseEnd::skipped;
      result.reason = outcome.text.empty() ? "no memory for the tensors" : outcome.text;
      return result;
    case runner::Status::refused:
      result.end = CaseEnd::violated;
      violation.got = fmt::format("the kernel refused the call after `supports` had said yes: {}",
                                  outcome.text.empty() ? "no reason given" : outcome.text);
      violation.diagnosis = "refused what it supports";
      break;
    case runner::Status::failed:
      result.end = CaseEnd::violated;
      violation.got = fmt::format("the kernel reported a failure: {}", outcome.text.empty() ? "no text" : outcome.text);
      violation.diagnosis = "reported a failure";
      break;
    case runner::Status::invalid_status:
      result.end = CaseEnd::violated;
      violation.got = fmt::format("the kernel returned a status that the ABI does not have{}{}",
                                  outcome.text.empty() ? "" : ": ", outcome.text);
      violation.diagnosis = "invalid status";
      break;
    case runner::Status::crashed:
      result.end = CaseEnd::crashed;
      violation.got = outcome.text.empty() ? "the worker crashed" : outcome.text;
      violation.diagnosis = "crash";
      for (const runner::Finding& finding : outcome.findings)
        if (finding.kind == runner::FindingKind::fault) violation.diagnosis = without_numbers(finding.sentence);
      break;
    case runner::Status::exited:
      result.end = CaseEnd::crashed;
      violation.got = outcome.text.empty() ? "the kernel ended the process" : outcome.text;
      violation.diagnosis = "process ended by the kernel";
      break;
    case runner::Status::timed_out:
      result.end = CaseEnd::timed_out;
      violation.got = outcome.text.empty() ? "no return before the deadline" : outcome.text;
      violation.diagnosis = "hang";
      break;
  }
  // "read 4 bytes past the end of x" says more than the signal.
  if (!findings.empty() && violation.got.find(findings) == std::string::npos) violation.error = findings;
  return result;
}

class EngineBench final : public Bench {
 public:
  EngineBench(const Door& door, const runner::KernelInfo& kernel) : door_(door), kernel_(kernel) {}
  [[nodiscard]] std::vector<runner::Outcome> run(std::span<const runner::Call> calls) override {
    // In pieces: a worker keeps a slot, which is several mappings, for each call of the largest batch it has seen.
    constexpr std::size_t piece = 8;
    std::vector<runner::Outcome> outcomes;
    outcomes.reserve(calls.size());
    for (std::size_t begin = 0; begin < calls.size(); begin += piece) {
      std::vector<runner::Outcome> some = door_(calls.subspan(begin, std::min(piece, calls.size() - begin)));
      for (runner::Outcome& outcome : some) {
        if (auto end = end_of(outcome)) throw CaseEnded{std::move(*end)};
        outcomes.push_back(std::move(outcome));
      }
    }
    return outcomes;
  }
  [[nodiscard]] const runner::KernelInfo& kernel() const override { return kernel_; }

 private:
  const Door& door_;
  const runner::KernelInfo& kernel_;
};

int gravity(Verdict verdict) {
  switch (verdict) {
    case Verdict::crashed:
      return 3;
    case Verdict::timed_out:
      return 2;
    case Verdict::failed:
      return 1;
    default:
      return 0;
  }
}

bool reported_before(const Failure& a, const Failure& b) {
  if (gravity(a.verdict) != gravity(b.verdict)) return gravity(a.verdict) > gravity(b.verdict);
  return a.index < b.index;
}

// NaN counts as beyond every bound.
double share_of(double share) { return std::isnan(share) ? std::numeric_limits<double>::infinity() : share; }

}  // namespace

CaseResult judge_case(const Property& property, const Case& one_case, const Subject& subject,
                      std::span<const runner::Outcome> outcomes, const Door& door) {
  for (const runner::Outcome& outcome : outcomes)
    if (auto end = end_of(outcome)) return std::move(*end);
  EngineBench bench(door, subject.kernel);
  try {
    CaseResult result;
    result.judgement = property.judge(one_case, subject, outcomes, bench);
    if (result.judgement.violation) {
      result.end = CaseEnd::violated;
      result.violation = *result.judgement.violation;
    } else if (!result.judgement.skipped.empty()) {
      result.end = CaseEnd::skipped;
      result.reason = result.judgement.skipped;
    } else if (!result.judgement.declined.empty()) {
      result.end = CaseEnd::refused;
      result.reason = result.judgement.declined;
    } else if (result.judgement.discarded) {
      result.end = CaseEnd::discarded;
    }
    return result;
  } catch (CaseEnded& ended) {
    return std::move(ended.result);
  }
}

TriedCase try_case(const Property& property, const Case& one_case, const Subject& subject, const Door& door) {
  TriedCase tried;
  tried.calls = property.calls(one_case, subject);
  tried.outcomes = door(tried.calls);
  tried.result = judge_case(property, one_case, subject, tried.outcomes, door);
  return tried;
}

bool on_bench(const Door& door, const runner::KernelInfo& kernel, const std::function<void(Bench&)>& use) {
  EngineBench bench(door, kernel);
  try {
    use(bench);
    return true;
  } catch (const CaseEnded&) {
    return false;
  }
}

void UnitTally::add(std::int64_t index, const Problem& problem, const CaseResult& result) {
  ++unit.cases;
  const auto failed = [&](Verdict verdict) {
    ++unit.failed_cases;
    Failure found{verdict, index, {}, result.violation};
    if (failure && !reported_before(found, *failure)) return;
    found.problem = print(problem);
    failure = std::move(found);
  };
  switch (result.end) {
    case CaseEnd::held:
      break;
    case CaseEnd::violated:
      failed(Verdict::failed);
      break;
    case CaseEnd::crashed:
      ++grave;
      failed(Verdict::crashed);
      break;
    case CaseEnd::timed_out:
      ++grave;
      failed(Verdict::timed_out);
      break;
    case CaseEnd::refused:
      ++unit.refused_cases;
      if (refusal_index < 0 || index < refusal_index) {
        refusal_index = index;
        refusal = result.reason;
      }
      break;
    case CaseEnd::discarded:
      ++discarded;
      break;
    case CaseEnd::skipped:
      ++skipped;
      if (given_up.empty()) given_up = result.reason;
      break;
  }
  const Judgement& judgement = result.judgement;
  unit.elements += judgement.elements;
  unit.not_judged += judgement.not_judged;
  unit.worst.row_ulp = std::max(unit.worst.row_ulp, share_of(judgement.worst_row_ulp));
  unit.fitting_uses &= judgement.fitting_uses;  // -1 leaves the other as it is
  take_outputs(index, problem, judgement);
  const double share = share_of(judgement.worst_share);
  if (judgement.elements == 0 && share == 0) return;
  if (worst_index < 0 || share > unit.worst.share_of_bound ||
      (share == unit.worst.share_of_bound && index < worst_index)) {
    worst_index = index;
    unit.worst.share_of_bound = share;
    unit.worst.problem = print(problem);
    unit.worst.output = std::string(name_of(judgement.worst_role));
  }
}

void UnitTally::take_outputs(std::int64_t index, const Problem& problem, const Judgement& judgement) {
  if (!is_backward(problem.phase) && problem.phase != Phase::double_backward) return;
  for (const Role role : {Role::dx, Role::dgamma, Role::dbeta, Role::ddy}) {
    const Judgement::Peak& peak = judgement.peak[role];
    if (peak.index < 0) continue;
    const auto known = std::find_if(unit.worst_of_outputs.begin(), unit.worst_of_outputs.end(), [&](const auto& worst) {
      return worst.output == name_of(role) && worst.cotangent == name_of(problem.cotangent);
    });
    // The text is made where it is needed only.
    if (known != unit.worst_of_outputs.end() && known->share_of_bound > share_of(peak.share)) continue;
    take_output({std::string(name_of(role)), std::string(name_of(problem.cotangent)), share_of(peak.share),
                 place(problem, role, static_cast<std::size_t>(peak.index)), print(problem), index});
  }
}

// In the order of the names, so that the record does not depend on who comes first.
void UnitTally::take_output(const WorstOfOutput& other) {
  const auto key = [](const WorstOfOutput& worst) { return std::tie(worst.output, worst.cotangent); };
  auto known = std::lower_bound(unit.worst_of_outputs.begin(), unit.worst_of_outputs.end(), other,
                                [&](const auto& a, const auto& b) { return key(a) < key(b); });
  if (known == unit.worst_of_outputs.end() || key(*known) != key(other)) {
    unit.worst_of_outputs.insert(known, other);
    return;
  }
  if (other.share_of_bound > known->share_of_bound ||
      (other.share_of_bound == known->share_of_bound && other.index < known->index))
    *known = other;
}

void UnitTally::merge(const UnitTally& other) {
  unit.cases += other.unit.cases;
  unit.refused_cases += other.unit.refused_cases;
  unit.failed_cases += other.unit.failed_cases;
  unit.elements += other.unit.elements;
  unit.not_judged += other.unit.not_judged;
  unit.seconds += other.unit.seconds;
  discarded += other.discarded;
  skipped += other.skipped;
  grave += other.grave;
  stopped = stopped || other.stopped;
  if (given_up.empty()) given_up = other.given_up;
  unit.worst.row_ulp = std::max(unit.worst.row_ulp, other.unit.worst.row_ulp);
  unit.fitting_uses &= other.unit.fitting_uses;
  for (const WorstOfOutput& worst : other.unit.worst_of_outputs) take_output(worst);
  const double share = other.unit.worst.share_of_bound;
  if (other.worst_index >= 0 && (worst_index < 0 || share > unit.worst.share_of_bound ||
                                 (share == unit.worst.share_of_bound && other.worst_index < worst_index))) {
    worst_index = other.worst_index;
    const double row_ulp = unit.worst.row_ulp;
    unit.worst = other.unit.worst;
    unit.worst.row_ulp = row_ulp;
  }
  if (other.refusal_index >= 0 && (refusal_index < 0 || other.refusal_index < refusal_index)) {
    refusal_index = other.refusal_index;
    refusal = other.refusal;
  }
  if (other.failure && (!failure || reported_before(*other.failure, *failure))) failure = other.failure;
}

void UnitTally::settle() {
  unit.reason.clear();
  unit.finding_index = failure ? failure->index : -1;
  if (failure) {
    unit.verdict = failure->verdict;
    if (stopped) unit.reason = fmt::format("not tried further after {} crashes or hangs", grave);
    return;
  }
  const std::int64_t judged = unit.cases - unit.refused_cases - discarded - skipped;
  if (unit.cases == 0) {
    unit.verdict = given_up.empty() ? Verdict::mistrusted : Verdict::skipped;
    unit.reason = given_up.empty() ? "the plan has no case for it" : given_up;
  } else if (unit.refused_cases == unit.cases) {
    unit.verdict = Verdict::refused;
    unit.reason = refusal;
  } else if (skipped > 0 && judged == 0) {
    unit.verdict = Verdict::skipped;
    unit.reason = given_up;
  } else if (!given_up.empty() && skipped == 0) {
    unit.verdict = Verdict::skipped;
    unit.reason = given_up;
  } else if (10 * discarded > 9 * (unit.cases - unit.refused_cases - skipped)) {
    unit.verdict = Verdict::mistrusted;
    unit.reason = fmt::format("{} of {} cases were discarded{}", discarded, unit.cases, refusals());
  } else if (unit.elements == 0) {
    unit.verdict = Verdict::mistrusted;
    unit.reason = fmt::format("nothing was compared in {} cases{}", unit.cases, refusals());
  } else if (static_cast<double>(unit.elements) <
             judged_at_least * static_cast<double>(unit.elements + unit.not_judged)) {
    unit.verdict = Verdict::mistrusted;
    unit.reason = fmt::format("{} of {} elements were judged; the others are too noisy", unit.elements,
                              unit.elements + unit.not_judged);
  } else {
    unit.verdict = Verdict::passed;
    if (skipped > 0)
      unit.reason = fmt::format("{} of {} cases skipped: {}", skipped, unit.cases, given_up);
    else if (2 * unit.refused_cases > unit.cases)
      unit.reason = refusals().substr(2);
  }
}

// "; 97 of 100 cases were refused: odd lengths", or nothing.
std::string UnitTally::refusals() const {
  if (unit.refused_cases == 0) return {};
  return fmt::format("; {} of {} cases were refused: {}", unit.refused_cases, unit.cases, refusal);
}

}  // namespace normgate
