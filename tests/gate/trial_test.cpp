// Judging cases and counting them: what becomes of crashes, refusals, discards; that parts merge to the whole.
#include "gate/engine/trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "gate/engine/recurrence.hpp"
#include "gate/engine/shrinking.hpp"

namespace normgate {
namespace {

CaseResult result_of(CaseEnd end, std::int64_t elements = 10, double share = 0.1) {
  CaseResult result;
  result.end = end;
  if (end == CaseEnd::held || end == CaseEnd::violated) {
    result.judgement.elements = elements;
    result.judgement.worst_share = share;
  }
  result.violation.got = "wrong";
  result.reason = "too large";
  return result;
}

Problem problem_number(std::int64_t index) {
  Problem problem;
  problem.shape = {1, 1, 4, 1};
  problem.key = static_cast<std::uint64_t>(index);
  return problem;
}

UnitTally tally_of(const std::vector<CaseEnd>& ends) {
  UnitTally tally;
  for (std::size_t i = 0; i < ends.size(); ++i)
    tally.add(static_cast<std::int64_t>(i), problem_number(static_cast<std::int64_t>(i)), result_of(ends[i]));
  tally.settle();
  return tally;
}

TEST(Tally, VerdictsFailClosed) {
  using enum CaseEnd;
  EXPECT_EQ(tally_of({held, held}).unit.verdict, Verdict::passed);
  EXPECT_EQ(tally_of({}).unit.verdict, Verdict::mistrusted);
  EXPECT_EQ(tally_of({refused, refused}).unit.verdict, Verdict::refused);
  EXPECT_EQ(tally_of({refused, refused}).unit.reason, "too large");
  EXPECT_EQ(tally_of({refused, held}).unit.verdict, Verdict::passed);
  EXPECT_EQ(tally_of({refused, held}).unit.refused_cases, 1);
  EXPECT_EQ(tally_of({discarded, discarded}).unit.verdict, Verdict::mistrusted);
  EXPECT_EQ(tally_of({held, discarded}).unit.verdict, Verdict::passed);
  EXPECT_EQ(tally_of({skipped, skipped}).unit.verdict, Verdict::skipped);
  EXPECT_EQ(tally_of({held, violated}).unit.verdict, Verdict::failed);
  EXPECT_EQ(tally_of({violated, timed_out}).unit.verdict, Verdict::timed_out);
  EXPECT_EQ(tally_of({timed_out, crashed}).unit.verdict, Verdict::crashed);

  std::vector<CaseEnd> mostly_discarded(20, discarded);
  mostly_discarded[3] = held;
  EXPECT_EQ(tally_of(mostly_discarded).unit.verdict, Verdict::mistrusted);

  UnitTally nothing_compared;
  nothing_compared.add(0, problem_number(0), result_of(CaseEnd::held, 0));
  nothing_compared.settle();
  EXPECT_EQ(nothing_compared.unit.verdict, Verdict::mistrusted);
}

TEST(Tally, WhoRefusesMostIsToldWithTheReason) {
  using enum CaseEnd;
  std::vector<CaseEnd> ends(97, refused);
  ends.resize(100, discarded);
  EXPECT_EQ(tally_of(ends).unit.verdict, Verdict::mistrusted);
  EXPECT_EQ(tally_of(ends).unit.reason, "3 of 100 cases were discarded; 97 of 100 cases were refused: too large");
  std::fill(ends.begin() + 97, ends.end(), held);
  EXPECT_EQ(tally_of(ends).unit.verdict, Verdict::passed);
  EXPECT_EQ(tally_of(ends).unit.reason, "97 of 100 cases were refused: too large");
}

TEST(Tally, TheGravestAndThenTheFirstFailureIsReported) {
  using enum CaseEnd;
  EXPECT_EQ(tally_of({held, violated, violated}).failure->index, 1);
  EXPECT_EQ(tally_of({held, violated, crashed, crashed}).failure->index, 2);
  EXPECT_EQ(tally_of({held, violated, crashed, crashed}).unit.failed_cases, 3);
}

TEST(Tally, PartsMergeToTheWholeInAnyOrder) {
  using enum CaseEnd;
  const std::vector<CaseEnd> ends{held, refused, held, violated, discarded, violated, held, refused, crashed, held};
  UnitTally whole;
  std::vector<UnitTally> parts(3);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    CaseResult result = result_of(ends[i], 10 + index, i % 4 == 2 ? 0.5 : 0.25);
    result.reason = "reason " + std::to_string(i);
    whole.add(index, problem_number(index), result);
    parts[i % 3].add(index, problem_number(index), result);
  }
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}) {
    UnitTally merged;
    for (const std::size_t part : order) merged.merge(parts[part]);
    merged.settle();
    whole.settle();
    EXPECT_EQ(merged.unit.cases, whole.unit.cases);
    EXPECT_EQ(merged.unit.elements, whole.unit.elements);
    EXPECT_EQ(merged.unit.refused_cases, whole.unit.refused_cases);
    EXPECT_EQ(merged.unit.failed_cases, whole.unit.failed_cases);
    EXPECT_EQ(merged.unit.verdict, whole.unit.verdict);
    EXPECT_EQ(merged.unit.worst.problem, whole.unit.worst.problem);
    EXPECT_EQ(merged.unit.worst.share_of_bound, 0.5);
    EXPECT_EQ(merged.refusal, "reason 1");
    EXPECT_EQ(merged.failure->problem, whole.failure->problem);
  }
}

// A property that makes one call at first and one more on the bench.
bool applies(const Subject&) { return true; }
std::vector<Problem> plan(const Subject&, Effort, std::uint64_t) { return {problem_number(0)}; }
std::vector<runner::Call> calls(const Case& one_case, const Subject&) {
  runner::Call call;
  call.problem = one_case.problem();
  return {call};
}
Judgement judge(const Case& one_case, const Subject&, std::span<const runner::Outcome> outcomes, Bench& bench) {
  Judgement judgement;
  const runner::Outcome again = bench.run_one(one_case.problem(), {});
  judgement.elements = static_cast<std::int64_t>(outcomes.size());
  if (again.outputs[Role::y] != outcomes.front().outputs[Role::y])
    judgement.violation = Violation{"y[0]", "1", "2", "", "", ""};
  return judgement;
}
const Property twice_the_same{"twice_the_same", "Two calls give the same.", applies, plan, calls, judge};

class Trial : public testing::Test {
 protected:
  // What the door gives for each call in turn.
  CaseResult try_with(std::vector<runner::Outcome> script) {
    std::size_t next = 0;
    const Door door = [&](std::span<const runner::Call> batch) {
      std::vector<runner::Outcome> outcomes;
      for (std::size_t i = 0; i < batch.size(); ++i) outcomes.push_back(script.at(next++));
      return outcomes;
    };
    const Subject subject{row_of(Variant::layer_norm), Phase::forward_training, kernel_, convention_};
    return try_case(twice_the_same, Case(problem_number(0)), subject, door).result;
  }
  static runner::Outcome good(float y) {
    runner::Outcome outcome;
    outcome.outputs[Role::y] = {y};
    return outcome;
  }
  static runner::Outcome bad(runner::Status status, const std::string& text) {
    runner::Outcome outcome;
    outcome.status = status;
    outcome.text = text;
    return outcome;
  }

 private:
  runner::KernelInfo kernel_;
  Convention convention_;
};

TEST_F(Trial, OutcomesOfBothCallsAreJudged) {
  EXPECT_EQ(try_with({good(1), good(1)}).end, CaseEnd::held);
  EXPECT_EQ(try_with({good(1), good(2)}).end, CaseEnd::violated);
}

TEST_F(Trial, ACallWithoutOutputsEndsTheCase) {
  using runner::Status;
  EXPECT_EQ(try_with({bad(Status::unsupported, "odd")}).end, CaseEnd::refused);
  EXPECT_EQ(try_with({bad(Status::unsupported, "odd")}).reason, "odd");
  EXPECT_EQ(try_with({bad(Status::refused, "late")}).end, CaseEnd::violated);
  // A refusal must leave everything as it was.
  runner::Outcome touching = bad(Status::unsupported, "odd");
  touching.findings.push_back({runner::FindingKind::environment, Role::x, 0, "changed the rounding mode"});
  EXPECT_EQ(try_with({touching}).end, CaseEnd::violated);
  EXPECT_EQ(try_with({touching}).violation.diagnosis, "environment not restored");
  EXPECT_EQ(try_with({bad(Status::invalid_status, "")}).end, CaseEnd::violated);
  EXPECT_EQ(try_with({bad(Status::no_memory, "")}).end, CaseEnd::skipped);
  // … also if it is one that the property made on the bench.
  EXPECT_EQ(try_with({good(1), bad(Status::crashed, "SIGSEGV")}).end, CaseEnd::crashed);
  EXPECT_EQ(try_with({good(1), bad(Status::exited, "")}).end, CaseEnd::crashed);
  EXPECT_EQ(try_with({good(1), bad(Status::timed_out, "")}).end, CaseEnd::timed_out);
  EXPECT_EQ(try_with({good(1), bad(Status::crashed, "SIGSEGV")}).violation.got, "SIGSEGV");
}

TEST_F(Trial, TheFaultStandsBesideTheSignal) {
  runner::Outcome crash = bad(runner::Status::crashed, "SIGSEGV");
  crash.findings.push_back({runner::FindingKind::fault, Role::x, 64, "read 4 bytes past the end of x"});
  EXPECT_EQ(try_with({crash}).violation.error, "read 4 bytes past the end of x");
}

TEST(Recurrence, TheCommandIsTheOneThatFails) {
  Unit unit;
  unit.kernel = "mine";
  unit.target = "avx2";
  unit.phase = "forward_training";
  unit.property = "accuracy";
  unit.plugin = "mine.so";
  RunOptions options;
  options.seed = 7;
  FindingRows rows;
  rows.problem = "forward_training layer_norm n=1";
  rows.again = "as it was";

  FindingRows always = rows;
  tell_recurrence({3, 3, 0, 0, false}, unit, options, always);
  EXPECT_EQ(always.again, "as it was");
  EXPECT_EQ(always.diagnosis, "");

  FindingRows sometimes = rows;
  tell_recurrence({3, 1, 100, 20, false}, unit, options, sometimes);
  EXPECT_EQ(sometimes.again,
            "normgate replay 'forward_training layer_norm n=1' --kernel mine --target avx2 --property accuracy "
            "--plugin mine.so --repeat 204");
  EXPECT_EQ(sometimes.diagnosis, "not repeatable");

  FindingRows behind_others = rows;
  tell_recurrence({3, 0, 100, 0, true}, unit, options, behind_others);
  EXPECT_EQ(behind_others.again,
            "normgate check --kernel mine --target avx2 --phase forward_training --property accuracy --effort quick "
            "--seed 7 --jobs 1 --plugin mine.so");
  FindingRows never = rows;
  tell_recurrence({3, 0, 100, 0, false}, unit, options, never);
  EXPECT_EQ(never.again,
            "normgate check --kernel mine --target avx2 --effort quick --seed 7 --jobs 1 --plugin mine.so");
  EXPECT_NE(never.looks_like.find("did not fail again in a fresh process"), std::string::npos);
}

TEST(Replay, TheCommandNamesThePluginUnlessItIsBuiltIn) {
  Unit unit;
  unit.kernel = "mine";
  unit.target = "avx2";
  unit.property = "accuracy";
  unit.plugin = "/tmp/my plugin.so";
  RunOptions options;
  EXPECT_EQ(replay_command("forward_training layer_norm n=1", unit, options),
            "normgate replay 'forward_training layer_norm n=1' --kernel mine --target avx2 --property accuracy "
            "--plugin '/tmp/my plugin.so'");
  options.built_in_plugins = {unit.plugin};
  EXPECT_EQ(replay_command("forward_training layer_norm n=1", unit, options),
            "normgate replay 'forward_training layer_norm n=1' --kernel mine --target avx2 --property accuracy");
}

}  // namespace
}  // namespace normgate
