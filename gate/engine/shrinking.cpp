// Shrinking under a budget, diagnosis, and the rows of a finding.
#include "gate/engine/shrinking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "gate/engine/diagnosis.hpp"
#include "gate/engine/names.hpp"
#include "properties/generators/plan.hpp"
#include "properties/generators/shrink.hpp"
#include "reference/problem/data.hpp"

namespace normgate {
namespace {

constexpr int tries_at_most = 200;
// What a person can check by hand, and what can be pasted.
constexpr std::int64_t elements_by_hand = 16;
constexpr std::int64_t elements_in_a_finding = 32;
// What is tried of the plan to tell explanations apart.
constexpr std::size_t neighbours = 6;
constexpr std::size_t spread = 24;
constexpr std::int64_t elements_of_one = std::int64_t{1} << 14;
constexpr std::int64_t elements_of_all = std::int64_t{1} << 16;
constexpr std::string_view nothing_known =
    "nothing that is known here: no other convention or algorithm and no known mistake gives this result";
constexpr std::string_view in_some_cases = ", in some layouts or sizes only: other cases follow what is declared";

// Rounded to significant digits, at most three; 0 digits: to an integer.
constexpr int most_digits = 3;
float shortened(float value, int digits) {
  if (!std::isfinite(value)) return value;
  if (digits == 0 && std::fabs(value) < 999) return std::nearbyint(value);
  if (digits == 0) digits = most_digits;
  return std::strtof(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
}

// "float x[] = {1, 2.5}, gamma[] = {NAN};" of everything that the kernel reads.
std::string declaration_of(const Inputs& inputs) {
  std::string text;
  for (std::size_t r = 0; r < role_count; ++r) {
    const Role role = static_cast<Role>(r);
    if (inputs[role].empty()) continue;
    std::string values;
    for (const float value : inputs[role]) {
      std::string number = shortest(static_cast<double>(value));
      // Not the integer 0.
      if (number == "-0") number = "-0.0";
      if (std::isnan(value)) number = "NAN";
      if (std::isinf(value)) number = value < 0 ? "-INFINITY" : "INFINITY";
      values += (values.empty() ? "" : ", ") + number;
    }
    text += fmt::format("{} {}[] = {{{}}}", text.empty() ? "float" : ",", name_of(role), values);
  }
  return text.empty() ? text : text + ";";
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
    std::optional<Explanation> explanation;
    bool nothing_fits = false;
    if (diagnosis_.empty() && !grave) {
      explanation = explanation_of_unit(tried, *parsed.problem);
      if (explanation) diagnosis_ = asked_for_;
      nothing_fits = wrong_ && !explanation;
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
      // The case that is reported may be too small to show the mistake.
      if (!hinted) {
        problem = smallest(explanation ? base_ : problem, still_fails, tries_at_most, go_on, inside_).problem;
        if (!grave) problem = with_short_values(problem);
      }
    }

    Failure shown = failed_.failure;
    if (problem == *parsed.problem) {
      shown.violation = tried.result.violation;
    } else {
      const TriedCase last = attempt(Case(problem));
      shown.problem = print(problem);
      shown.violation = last.result.violation;
      // The sentence with the numbers of the case that is shown.
      if (explanation && asked_for_ == explanation->diagnosis)
        if (const auto smaller = explanation_of(last, asked_for_))
          explanation->looks_like = smaller->looks_like + std::string(in_some_cases_ ? in_some_cases : "");
    }
    FindingRows rows = plain_finding(failed_.property, failed_.unit, shown, options_);
    if (rows.looks_like.empty() && explanation) rows.looks_like = sentence(*explanation);
    if (rows.looks_like.empty() && nothing_fits) rows.looks_like = nothing_known;
    if (explanation)
      rows.diagnosis = explanation->diagnosis;
    else if (!diagnosis_.empty())
      rows.diagnosis = diagnosis_;
    return rows;
  }

  std::optional<FindingRows> explain_by(const ExplainedLine& line) {
    const ProblemOrError parsed = parse_problem(line.problem);
    if (!parsed.problem || !tensors_amiss(failed_.subject.kernel, *parsed.problem).empty()) return std::nullopt;
    const TriedCase tried = attempt(Case(*parsed.problem));
    if (tried.result.end != CaseEnd::violated) return std::nullopt;
    auto explanation = explanation_of_unit(tried, *parsed.problem);
    if (!explanation || explanation->diagnosis != line.diagnosis || base_ != *parsed.problem) return std::nullopt;
    diagnosis_ = asked_for_;
    const auto still_fails = [&](const Problem& candidate) { return fails_alike(candidate); };
    const Shrunk shrunk = smallest(
        *parsed.problem, still_fails, tries_at_most, [] { return true; }, inside_);
    const Problem problem = with_short_values(shrunk.problem);
    const TriedCase last = attempt(Case(problem));
    if (asked_for_ == explanation->diagnosis)
      if (const auto smaller = explanation_of(last, asked_for_))
        explanation->looks_like = smaller->looks_like + std::string(in_some_cases_ ? in_some_cases : "");
    Failure shown = failed_.failure;
    shown.problem = print(problem);
    shown.violation = last.result.violation;
    FindingRows rows = plain_finding(failed_.property, failed_.unit, shown, options_);
    rows.looks_like = sentence(*explanation);
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

  // Whether another call of the same problem, with other data, shows that the kernel does otherwise: then it is not how
  // it computes, but what it made of this call.
  [[nodiscard]] bool otherwise(const TriedCase& tried, std::size_t one, std::string_view diagnosis) const {
    for (std::size_t i = 0; i < tried.outcomes.size(); ++i)
      if (i != one && tried.calls[i].problem == tried.calls[one].problem &&
          tried.calls[i].inputs != tried.calls[one].inputs &&
          contradicts(tried.calls[i].problem, tried.calls[i].inputs, failed_.subject, tried.outcomes[i], diagnosis))
        return true;
    return false;
  }
  // The explanations of the first call of a case that has something to explain.
  Diagnosed explanations_of(const TriedCase& tried, std::string_view only) {
    Diagnosed diagnosed;
    // Without a reference there is no truth to explain a difference from.
    if (!failed_.subject.kernel.variant) return diagnosed;
    for (std::size_t i = 0; i < tried.outcomes.size(); ++i) {
      Diagnosed one =
          explanations(tried.calls[i].problem, tried.calls[i].inputs, failed_.subject, tried.outcomes[i], only);
      diagnosed.wrong = diagnosed.wrong || one.wrong;
      diagnosed.found = std::move(one.found);
      std::erase_if(diagnosed.found,
                    [&](const Explanation& found) { return found.rank <= 1 && otherwise(tried, i, found.diagnosis); });
      if (!diagnosed.found.empty()) break;
    }
    return diagnosed;
  }
  std::optional<Explanation> explanation_of(const TriedCase& tried, std::string_view only) {
    const Diagnosed diagnosed = explanations_of(tried, only);
    if (diagnosed.found.empty()) return std::nullopt;
    return diagnosed.found.front();
  }
  bool contradicted_by(const TriedCase& tried, std::string_view diagnosis) {
    for (std::size_t i = 0; i < tried.outcomes.size(); ++i)
      if (contradicts(tried.calls[i].problem, tried.calls[i].inputs, failed_.subject, tried.outcomes[i], diagnosis))
        return true;
    return false;
  }

  // One case has many explanations, most of them coincidences; others of the unit's plan tell them apart. What explains
  // the failing ones stands, and is the convention or algorithm of the kernel only if those that hold agree with it.
  std::optional<Explanation> explanation_of_unit(const TriedCase& tried, const Problem& problem) {
    const Diagnosed original = explanations_of(tried, {});
    wrong_ = original.wrong;
    if (!wrong_) return std::nullopt;
    Seen seen;
    seen.failing.push_back({problem, tried, original});
    // A replay shows what its line shows.
    if (options_.shrink || options_.explain) look_around(seen);
    std::vector<Candidate> candidates = weighed(seen);
    std::erase_if(candidates, [&](const Candidate& one) {
      return one.explained < 2 * one.refuted || one.explanation.matched < matched_at_least;
    });
    // A tight explanation of a few cases is a coincidence beside one that explains most.
    int explained = 0;
    for (const Candidate& one : candidates) explained = std::max(explained, one.explained);
    std::erase_if(candidates, [&](const Candidate& one) { return 2 * one.explained < explained; });
    if (candidates.empty()) return std::nullopt;
    int rank = candidates.front().explanation.rank;
    for (const Candidate& one : candidates) rank = std::min(rank, one.explanation.rank);
    std::erase_if(candidates, [&](const Candidate& one) { return one.explanation.rank != rank; });
    // Those that explain most; of these, those that nothing contradicts.
    int most = 0;
    for (const Candidate& one : candidates) most = std::max(most, one.explained);
    std::erase_if(candidates, [&](const Candidate& one) { return one.explained < most; });
    const bool some_hold =
        std::any_of(candidates.begin(), candidates.end(), [](const Candidate& one) { return one.contradicted == 0; });
    if (some_hold) std::erase_if(candidates, [](const Candidate& one) { return one.contradicted > 0; });
    // One case that a hypothesis fits is no evidence against those that it does not.
    if (!some_hold && most < 2) return std::nullopt;
    std::vector<Explanation> left;
    for (const Candidate& one : candidates) left.push_back(one.explanation);
    std::optional<Explanation> result = agreed(std::move(left));
    if (!result) return std::nullopt;
    // Two that nothing tells apart are one result, "this, or that"; the first of them is looked for in smaller
    // problems.
    asked_for_.clear();
    for (const Candidate& one : candidates) {
      const std::string& name = one.explanation.diagnosis;
      const bool is_first = result->diagnosis == name || result->diagnosis.starts_with(name + ", or ");
      if (!is_first || name.size() <= asked_for_.size()) continue;
      asked_for_ = name;
      base_ = one.first;
    }
    in_some_cases_ = !some_hold;
    if (in_some_cases_) {
      result->looks_like += in_some_cases;
      result->advice.clear();
    }
    return result;
  }

  struct Candidate {
    Explanation explanation;
    Problem first;         // that it explains
    int explained = 0;     // failing cases
    int refuted = 0;       // failing cases, by another mistake
    int contradicted = 0;  // cases that hold
  };
  struct Failing {
    Problem problem;
    TriedCase tried;
    Diagnosed diagnosed;
  };
  struct Seen {
    std::vector<Failing> failing;
    std::vector<TriedCase> holding;
  };
  void look_around(Seen& seen) {
    const std::vector<Problem> plan = failed_.property.plan(failed_.subject, options_.effort, options_.seed);
    std::vector<std::size_t> chosen;
    const auto failure = static_cast<std::size_t>(std::max<std::int64_t>(failed_.failure.index, 0));
    // The neighbours of the failing case are like it, and the rest of the plan is not.
    for (std::size_t i = failure + 1; i < plan.size() && i <= failure + neighbours; ++i) chosen.push_back(i);
    const std::size_t step = std::max<std::size_t>(1, plan.size() / spread);
    for (std::size_t i = step / 2; i < plan.size(); i += step)
      if (i < failure || i > failure + neighbours) chosen.push_back(i);
    std::int64_t elements = 0;
    for (const std::size_t i : chosen) {
      const std::int64_t size = element_count(plan[i].shape);
      if (size > elements_of_one || elements + size > elements_of_all) continue;
      elements += size;
      TriedCase other = attempt(Case(plan[i]));
      if (other.result.end == CaseEnd::violated) {
        Diagnosed diagnosed = explanations_of(other, {});
        if (diagnosed.wrong) seen.failing.push_back({plan[i], std::move(other), std::move(diagnosed)});
      } else if (other.result.end == CaseEnd::held) {
        seen.holding.push_back(std::move(other));
      }
    }
  }
  std::vector<Candidate> weighed(const Seen& seen) {
    std::vector<Candidate> candidates;
    for (const Failing& failing : seen.failing)
      for (const Explanation& found : failing.diagnosed.found) {
        const auto same = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& one) {
          return one.explanation.diagnosis == found.diagnosis;
        });
        if (same == candidates.end()) {
          candidates.push_back({found, failing.problem, 1});
          continue;
        }
        ++same->explained;
        same->explanation.matched += found.matched;
        same->explanation.residual = std::max(same->explanation.residual, found.residual);
      }
    std::erase_if(candidates,
                  [&](const Candidate& one) { return 4 * one.explained < static_cast<int>(seen.failing.size()); });
    for (Candidate& one : candidates) {
      const std::string& name = one.explanation.diagnosis;
      for (const Failing& failing : seen.failing) {
        const auto& found = failing.diagnosed.found;
        if (std::any_of(found.begin(), found.end(), [&](const Explanation& each) { return each.diagnosis == name; }))
          continue;
        const bool refutes = one.explanation.rank == 1 ? contradicted_by(failing.tried, name)
                                                       : group_size(failing.problem) >= matched_at_least;
        one.refuted += refutes ? 1 : 0;
      }
      for (const TriedCase& holding : seen.holding) one.contradicted += contradicted_by(holding, name) ? 1 : 0;
    }
    return candidates;
  }

  static std::string sentence(const Explanation& explanation) {
    return explanation.looks_like + (explanation.advice.empty() ? "" : "; " + explanation.advice);
  }

  // The last step of shrinking: explicit values of at most three digits in place of the profile, integers where they
  // will do. At most thirty tries.
  Problem with_short_values(const Problem& problem) {
    if (element_count(problem.shape) > elements_by_hand || problem.values != PerRole<std::vector<float>>{})
      return problem;
    const Inputs inputs = make_inputs(problem);
    Problem exact = problem;
    // No demand that rests on how data were drawn may be made of explicit ones.
    exact.profile = Profile::conditioned;
    exact.kappa = 1;
    exact.scale = 0;
    exact.level = 1;
    std::vector<Role> roles;
    for (std::size_t r = 0; r < role_count; ++r) {
      const Role role = static_cast<Role>(r);
      // What is handed follows from x; an upstream gradient of ones is as short as it can be.
      const bool handed =
          problem.phase == Phase::backward_training && (role == Role::mean || role == Role::stat || role == Role::y);
      if (inputs[role].empty() || handed || (role == Role::dy && problem.cotangent == Cotangent::ones)) continue;
      if (role == Role::dy) {
        exact.cotangent = Cotangent::random;
        exact.layout[Role::dy].broadcast = {};
      }
      roles.push_back(role);
    }
    const auto rounded = [&](Problem from, Role role, int digits) {
      from.values[role] = inputs[role];
      for (float& value : from.values[role]) value = shortened(value, digits);
      return from;
    };
    const auto holds = [&](const Problem& candidate) { return check(candidate).empty() && fails_alike(candidate); };
    for (int digits = 0; digits <= most_digits; ++digits) {
      Problem candidate = exact;
      for (const Role role : roles) candidate = rounded(std::move(candidate), role, digits);
      if (roles.empty() || !holds(candidate)) continue;
      for (const Role role : roles)
        for (int fewer = 0; fewer < digits; ++fewer)
          if (Problem shorter = rounded(candidate, role, fewer); holds(shorter)) {
            candidate = std::move(shorter);
            break;
          }
      Problem no_key = candidate;
      no_key.key = 0;
      return candidate.key != 0 && holds(no_key) ? no_key : candidate;
    }
    return problem;
  }

  bool fails_alike(const Problem& candidate) {
    if (!tensors_amiss(failed_.subject.kernel, candidate).empty()) return false;
    const TriedCase tried = attempt(Case(candidate));
    if (verdict_of(tried.result.end) != failed_.failure.verdict) return false;
    if (failed_.failure.verdict != Verdict::failed || diagnosis_.empty()) return true;
    if (!tried.result.violation.diagnosis.empty()) return tried.result.violation.diagnosis == diagnosis_;
    return explanation_of(tried, diagnosis_).has_value();
  }

  const FailedUnit& failed_;
  const std::function<Problem(const Problem&)> inside_ = [this](const Problem& p) {
    return inside_claim(p, failed_.subject);
  };
  const RunOptions& options_;
  GraveBudget& budget_;
  std::string diagnosis_;  // what a smaller problem must show
  std::string asked_for_;  // the same, of an explanation
  bool in_some_cases_ = false;
  bool wrong_ = false;  // there was something to explain
  Problem base_;        // the first that the explanation explains
};

}  // namespace

std::string tensors_amiss(const runner::KernelInfo& kernel, const Problem& problem) {
  const runner::PhaseRoles& roles = kernel.roles[static_cast<std::size_t>(problem.phase)];
  // A kernel that works from y, once it is handed the deviation, works from nothing else, and no other kernel does.
  if (problem.phase == Phase::backward_training && problem.saved) {
    const bool from_output = kernel.claim.saved_use == SavedUse::from_output;
    if (from_output && !problem.from_output) return "works from y (NG_USE_FROM_OUTPUT), and from_output is 0";
    if (!from_output && problem.from_output) return "does not work from y (NG_USE_FROM_OUTPUT), and from_output is 1";
  }
  for (std::size_t r = 0; r < role_count; ++r) {
    const Role role = static_cast<Role>(r);
    const bool present = use_of(problem, role).present();
    const bool understood = role == Role::x || role == Role::y || role == Role::dy || role == Role::dx;
    if (((roles.required >> r) & 1U) != 0 && !present)
      return fmt::format("requires {}, which the line does not have", name_of(role));
    if (present && !understood && ((roles.supported >> r) & 1U) == 0)
      return fmt::format("does not support {}, which the line has", name_of(role));
  }
  return "";
}

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
  const ProblemOrError parsed = parse_problem(failure.problem);
  if (parsed.problem && element_count(parsed.problem->shape) <= elements_in_a_finding)
    rows.in = declaration_of(make_inputs(*parsed.problem));
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
