// The verdict's sentence and the exit code: what was not tested never reads as passed.
#include <gtest/gtest.h>

#include "tests/reports/records.hpp"

namespace normgate {
namespace {

TEST(Summary, AllPassed) {
  const Summary summary = summarize(sound_record());
  EXPECT_EQ(summary.verdict, "PASSED on 2 of 2 targets");
  EXPECT_EQ(summary.exit_code, 0);
  EXPECT_EQ(summary.counts[static_cast<std::size_t>(Verdict::passed)], 8);
}

TEST(Summary, SkippedTargetIsCountedAndNamed) {
  Record record = sound_record();
  record.skipped_targets.push_back({"plugins/normgate_simd.so", "avx3", "not on this CPU"});
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.verdict, "PASSED on 2 of 3 targets (avx3: not on this CPU)");
  EXPECT_EQ(summary.exit_code, 0);
}

TEST(Summary, UnitsOfASkippedTargetDoNotPass) {
  Record record = sound_record();
  record.skipped_targets.push_back({"plugins/normgate_simd.so", "avx3", "not on this CPU"});
  record.units.push_back(unit_of("layer_norm", "avx3", "accuracy", Verdict::skipped));
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.verdict, "PASSED on 2 of 3 targets (avx3: not on this CPU)");
  EXPECT_EQ(summary.exit_code, 0);
  EXPECT_EQ(summary.counts[static_cast<std::size_t>(Verdict::skipped)], 1);
}

TEST(Summary, MissingRequiredTargetIsIncomplete) {
  Record record = sound_record();
  record.skipped_targets.push_back({"plugins/normgate_simd.so", "avx3", "not on this CPU"});
  record.required_missing.push_back("avx3");
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.exit_code, 5);
  EXPECT_EQ(summary.verdict,
            "INCOMPLETE: required target avx3 was not tried; what was tried PASSED on 2 of 3 targets (avx3: not on "
            "this CPU)");
}

TEST(Summary, SkippedUnitOnATriedTargetIsIncomplete) {
  Record record = sound_record();
  record.units[3].verdict = Verdict::skipped;
  record.units[3].reason = "not enough memory";
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.exit_code, 5);
  EXPECT_NE(summary.verdict.find("1 unit could not be run: layer_norm scaling on sse4: not enough memory"),
            std::string::npos)
      << summary.verdict;
}

TEST(Summary, FailureLeads) {
  Record record = sound_record();
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  EXPECT_EQ(summarize(record).verdict, "FAILED on 1 of 2 targets (avx2): 1 of 8 units");
  EXPECT_EQ(summarize(record).exit_code, 1);
  record.units[2] = unit_of("layer_norm", "sse4", "accuracy", Verdict::crashed);
  EXPECT_EQ(summarize(record).verdict, "FAILED on 2 of 2 targets (avx2, sse4): 2 of 8 units (1 FAILED, 1 CRASHED)");
}

TEST(Summary, EveryFailingVerdictIsExitOne) {
  for (const Verdict verdict : {Verdict::failed, Verdict::crashed, Verdict::timed_out, Verdict::mistrusted}) {
    Record record = sound_record();
    record.units[5].verdict = verdict;
    const Summary summary = summarize(record);
    EXPECT_EQ(summary.exit_code, 1) << name_of(verdict);
    EXPECT_TRUE(summary.verdict.starts_with(name_of(verdict))) << summary.verdict;
  }
}

TEST(Summary, APassOverNoCaseIsMistrusted) {
  Record record = sound_record();
  record.units[0].cases = 0;
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.exit_code, 1);
  EXPECT_EQ(summary.counts[static_cast<std::size_t>(Verdict::mistrusted)], 1);
}

TEST(Summary, NothingAtAllIsNothingTested) {
  EXPECT_EQ(summarize(Record{}).exit_code, 4);
  Record record = sound_record();
  for (Unit& unit : record.units) {
    unit.verdict = Verdict::refused;
    unit.reason = "float32 only";
  }
  EXPECT_EQ(summarize(record).exit_code, 4);
  EXPECT_EQ(summarize(record).verdict,
            "NOTHING TESTED: every kernel declined everything, layer_norm (float32 only), rms_norm (float32 only)");
}

TEST(Summary, AKernelThatRefusedEverythingIsNothingTested) {
  Record record = sound_record();
  for (Unit& unit : record.units) {
    if (unit.kernel == "rms_norm") unit.verdict = Verdict::refused;
  }
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.exit_code, 4);
  EXPECT_TRUE(summary.verdict.starts_with("NOTHING TESTED of rms_norm")) << summary.verdict;
}

TEST(Summary, ATargetWhereEverythingWasRefusedDoesNotPass) {
  Record record = sound_record();
  for (Unit& unit : record.units) {
    if (unit.target == "sse4") unit.verdict = Verdict::refused;
  }
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.exit_code, 5);
  EXPECT_NE(summary.verdict.find("PASSED on 1 of 2 targets (sse4: nothing was tested there)"), std::string::npos)
      << summary.verdict;
}

TEST(Summary, MostlyRefusedIsSaidInTheFirstSentence) {
  Record record = sound_record();
  for (Unit& unit : record.units) {
    if (unit.kernel == "rms_norm") unit.refused_cases = 6;
  }
  EXPECT_EQ(summarize(record).verdict, "PASSED on 2 of 2 targets, but rms_norm refused 60 % of its cases");
  for (Unit& unit : record.units) {
    if (unit.kernel == "rms_norm") unit.refused_cases = 5;
  }
  EXPECT_EQ(summarize(record).verdict, "PASSED on 2 of 2 targets");
}

TEST(Summary, PrecedenceIsHarnessFailureIncompleteNothing) {
  Record record = sound_record();
  for (Unit& unit : record.units) {
    if (unit.kernel == "rms_norm") unit.verdict = Verdict::refused;
  }
  EXPECT_EQ(summarize(record).exit_code, 4);
  record.required_missing.push_back("avx3");
  EXPECT_EQ(summarize(record).exit_code, 5);
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  EXPECT_EQ(summarize(record).exit_code, 1);
  record.harness_errors.push_back("plugin 'x.so' cannot be opened");
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.exit_code, 3);
  // The sentence says all of them.
  for (const char* part :
       {"NOT JUDGED: 1 harness error; ", "FAILED on 1", "required target avx3", "NOTHING TESTED of rms_norm"}) {
    EXPECT_NE(summary.verdict.find(part), std::string::npos) << part << " in " << summary.verdict;
  }
  EXPECT_EQ(summary.verdict.find("PASSED"), std::string::npos) << summary.verdict;
}

TEST(Summary, OneTargetOfTwoPluginsPassesOnlyInBoth) {
  Record record = sound_record();
  record.skipped_targets.push_back({"other.so", "sse4", "not built"});
  EXPECT_EQ(summarize(record).verdict, "PASSED on 1 of 2 targets (sse4: not built)");
}

}  // namespace
}  // namespace normgate
