// The text for people: the shape of a failure and of a pass.
#include "reports/formats/text.hpp"

#include <gtest/gtest.h>

#include "tests/reports/records.hpp"

namespace normgate {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Text, APassIsHeaderTableVerdictAndOneLine) {
  Record record = sound_record();
  record.units[2].worst.share_of_bound = 0.36;
  record.not_claimed = {"layer_norm: threads, in place", "rms_norm: threads, in place"};
  EXPECT_EQ(write_text(record, {}),
            "normgate 0.1.0\n"
            "cpu      a CPU\n"
            "targets  avx2, sse4\n"
            "seed     1\n"
            "effort   quick\n"
            "\n"
            "kernel      avx2    sse4\n"
            "layer_norm  PASSED  PASSED\n"
            "rms_norm    PASSED  PASSED\n"
            "\n"
            "not claimed, not tested: threads, in place (layer_norm, rms_norm)\n"
            "\n"
            "PASSED on 2 of 2 targets\n"
            "2 kernels, 2 targets, 8 units, 80 cases, 8,000 elements compared, worst share of the bound 0.36 "
            "(layer_norm on sse4: layer_norm n=2 g=1 k=8), 0 % refused, 2.5 seconds\n");
}

TEST(Text, AFailureHasItsRowsInOrder) {
  Record record = sound_record();
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  record.units[2] = unit_of("layer_norm", "sse4", "accuracy", Verdict::failed);
  for (const std::size_t index : {0U, 2U}) {
    record.units[index].finding->diagnosis = "one-pass variance";
    record.units[index].finding->looks_like = "one-pass variance; declare `variance = one_pass`";
  }
  record.units[1] = unit_of("layer_norm", "avx2", "scaling", Verdict::failed);
  record.units[1].finding->diagnosis = "one-pass variance";
  const std::string text = write_text(record, {});
  EXPECT_TRUE(has(text,
                  "FAIL  accuracy   layer_norm   avx2, sse4\n"
                  "says  Every output element lies within its bound.\n"
                  "case  layer_norm n=1 g=1 k=3 key=7\n"
                  "in    float x[] = {1, 2, 4};\n"
                  "at    y[n=0 g=0 k=2 s=0]\n"
                  "got   0x1p+0  1\n"
                  "want  0x1.8p+0  1.5\n"
                  "error 4e6 row ulp, 1e6 of the bound\n"
                  "looks like one-pass variance; declare `variance = one_pass`\n"
                  "also fails scaling\n"
                  "again normgate replay 'layer_norm n=1 g=1 k=3 key=7' --kernel layer_norm\n"
                  "\n"))
      << text;
  EXPECT_TRUE(has(text, "layer_norm  FAILED 2/2  FAILED 1/2\n")) << text;
  EXPECT_TRUE(has(text, "\nFAILED on 2 of 2 targets (avx2, sse4): 3 of 8 units\n")) << text;
}

TEST(Text, RowsWithoutMeaningAreLeftOutAndOtherVerdictsNamed) {
  Record record = sound_record();
  record.units[0] = unit_of("layer_norm", "avx2", "memory", Verdict::crashed);
  record.units[0].finding->in = "";
  record.units[0].finding->got = "";
  record.units[0].finding->want = "";
  record.units[0].finding->error = "";
  const std::string text = write_text(record, {});
  EXPECT_TRUE(has(text, "FAIL  memory   layer_norm   avx2   CRASHED\n")) << text;
  EXPECT_TRUE(has(text, "key=7\nat    y[n=0 g=0 k=2 s=0]\nagain ")) << text;
}

TEST(Text, WhatIsHiddenIsCounted) {
  Record record = sound_record();
  for (const char* property : {"a", "b", "c", "d", "e", "f", "g"}) {
    record.units.push_back(unit_of("layer_norm", "avx2", property, Verdict::failed));
    record.units.back().finding->diagnosis = property;
  }
  EXPECT_TRUE(has(write_text(record, {}), "\nlayer_norm: 2 more findings not shown\n"));
}

TEST(Text, WhatIsNotClaimedIsALinePerClaim) {
  Record record = sound_record();
  for (int i = 0; i < 100; ++i) record.not_claimed.push_back("k" + std::to_string(i) + ": threads, strides");
  record.not_claimed[7] = "k7: in place, strides, threads, infinities";
  record.not_claimed[8] = "k8: strides";
  const std::string text = write_text(record, {});
  EXPECT_TRUE(has(text,
                  "\nnot claimed, not tested:\n"
                  "  threads (k0, k1, k2, k3 and 95 more)\n"
                  "  strides (k0, k1, k2, k3 and 96 more)\n"
                  "  in place, infinities (k7)\n"
                  "\n"))
      << text;
}

TEST(Text, AHarnessErrorIsToldOnce) {
  Record record = sound_record();
  record.harness_errors = {"plugin 'x.so' cannot be opened"};
  const std::string text = write_text(record, {});
  EXPECT_TRUE(has(text, "harness plugin 'x.so' cannot be opened\n")) << text;
  EXPECT_TRUE(has(text, "NOT JUDGED: 1 harness error; what was tried PASSED")) << text;
  EXPECT_EQ(text.find("x.so"), text.rfind("x.so")) << text;
}

TEST(Text, SecondsStandInTheLastLineAlone) {
  Record slow = sound_record();
  slow.seconds = 99;
  for (Unit& unit : slow.units) unit.seconds = 7;
  std::string quick_text = write_text(sound_record(), {});
  std::string slow_text = write_text(slow, {});
  ASSERT_NE(quick_text, slow_text);
  for (std::string* text : {&quick_text, &slow_text}) text->erase(text->rfind('\n', text->size() - 2));
  EXPECT_EQ(quick_text, slow_text);
}

TEST(Text, QuietKeepsFailuresVerdictAndLastLine) {
  Record record = sound_record();
  record.not_claimed = {"layer_norm: threads"};
  const std::string passed = write_text(record, {.colour = false, .quiet = true});
  EXPECT_TRUE(passed.starts_with("PASSED on 2 of 2 targets\n2 kernels")) << passed;
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  const std::string failed = write_text(record, {.colour = false, .quiet = true});
  EXPECT_TRUE(failed.starts_with("FAIL  accuracy")) << failed;
}

TEST(Text, ColourOnlyWhenAsked) {
  Record record = sound_record();
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  EXPECT_FALSE(has(write_text(record, {}), "\x1b["));
  EXPECT_TRUE(has(write_text(record, {.colour = true, .quiet = false}), "\x1b[1;31mFAIL\x1b[0m"));
}

TEST(Text, ForeignTextCannotCommandTheTerminalOrTheLog) {
  Record record = sound_record();
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  record.units[0].finding->at = "\x1b[2Jprinted:\n::error file=a::b\n  ##[error]c\nplain \xFF";
  record.harness_errors = {"::warning::x"};
  const std::string text = write_text(record, {});
  EXPECT_FALSE(has(text, "\x1b"));
  EXPECT_TRUE(has(text, "printed:\n      | ::error file=a::b\n      |   ##[error]c\n      plain \xEF\xBF\xBD\n"))
      << text;
  EXPECT_FALSE(has(text, "\n::")) << text;
}

TEST(Text, RefusedAndSkippedShowInTheTable) {
  Record record = sound_record();
  record.units[0].verdict = Verdict::refused;
  record.units[2].verdict = record.units[3].verdict = Verdict::refused;
  record.units.pop_back();
  record.units.pop_back();
  EXPECT_TRUE(has(write_text(record, {}), "layer_norm  PASSED 1/2  REFUSED\nrms_norm    PASSED      -\n"))
      << write_text(record, {});
}

}  // namespace
}  // namespace normgate
