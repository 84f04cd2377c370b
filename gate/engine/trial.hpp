// One case on one kernel, and the count of what became of the cases of a unit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/property.hpp"
#include "reports/record.hpp"

namespace normgate {

// Runs calls on the kernel under test; one outcome per call, in order.
using Door = std::function<std::vector<runner::Outcome>(std::span<const runner::Call>)>;

enum class CaseEnd : std::int32_t {
  held,
  violated,   // the property, or the contract of the door (a refusal after `supports` said yes, a failure)
  crashed,    // a signal, or the process ended
  timed_out,  // …
  refused,    // `supports` said no
  discarded,  // the case says nothing
  skipped,    // the harness had no memory for it
};

struct CaseResult {
  CaseEnd end = CaseEnd::held;
  Judgement judgement;
  Violation violation;  // of violated, crashed and timed_out
  std::string reason;   // of refused and skipped
};

// Judges a case from the outcomes of the property's calls on it; more calls of the property go through `door`.
[[nodiscard]] CaseResult judge_case(const Property& property, const Case& one_case, const Subject& subject,
                                    std::span<const runner::Outcome> outcomes, const Door& door);

// The same with the calls run first; they and their outcomes are kept for the diagnosis.
struct TriedCase {
  CaseResult result;
  std::vector<runner::Call> calls;
  std::vector<runner::Outcome> outcomes;
};
[[nodiscard]] TriedCase try_case(const Property& property, const Case& one_case, const Subject& subject,
                                 const Door& door);

// The failing case that is reported: of the gravest verdict, the first in plan order.
struct Failure {
  Verdict verdict = Verdict::failed;  // failed, crashed or timed_out
  std::int64_t index = 0;             // in the plan of the unit
  std::string problem;                // its line
  Violation violation;
};

// Runs what a property may also do, outside of a case; false if a call did not come back with outputs.
[[nodiscard]] bool on_bench(const Door& door, const runner::KernelInfo& kernel, const std::function<void(Bench&)>& use);

// A unit while it is tried. Tallies of disjoint parts of a plan merge to the tally of the whole, in any order.
struct UnitTally {
  Unit unit;
  std::int64_t discarded = 0;
  std::int64_t skipped = 0;
  std::int64_t grave = 0;  // crashes and hangs
  bool stopped = false;    // after too many of them
  std::string given_up;    // why the unit was not tried at all, or not to its end
  std::int64_t worst_index = -1;
  double judged_at_least = 0;       // Property::judged_at_least
  std::int64_t refusal_index = -1;  // of the first refusal in plan order, whose reason is reported
  std::string refusal;
  std::optional<Failure> failure;

  // `index`: of the case in the plan of the unit.
  void add(std::int64_t index, const Problem& problem, const CaseResult& result);
  void merge(const UnitTally& other);
  // Sets the unit's verdict and reason from the counts (DESIGN §6: nothing compared is not a pass).
  void settle();

 private:
  void take_outputs(std::int64_t index, const Problem& problem, const Judgement& judgement);
  void take_output(const WorstOfOutput& other);
  [[nodiscard]] std::string refusals() const;
};

}  // namespace normgate
