// Findings with one cause are one block.
#include "reports/grouping.hpp"

#include <gtest/gtest.h>

#include "tests/reports/records.hpp"

namespace normgate {
namespace {

using Names = std::vector<std::string>;

Unit finding_of(const char* kernel, const char* target, const char* property, const char* diagnosis) {
  Unit unit = unit_of(kernel, target, property, Verdict::failed);
  unit.finding->diagnosis = diagnosis;
  return unit;
}

TEST(Grouping, OneDiagnosisIsOneBlockWithItsTargetsAndProperties) {
  Record record;
  record.units = {finding_of("layer_norm", "avx2", "accuracy", "one-pass variance"),
                  finding_of("layer_norm", "avx2", "scaling", "one-pass variance"),
                  finding_of("layer_norm", "sse4", "accuracy", "one-pass variance"),
                  finding_of("layer_norm", "sse4", "layouts", "stray read")};
  record.units[1].phase = "forward_inference";
  record.units[2].finding_index = 1;
  record.units[2].finding->again = "the first case in plan order";
  const auto kernels = group_findings(record);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].hidden, 0);
  ASSERT_EQ(kernels[0].shown.size(), 2U);
  const FindingBlock& block = kernels[0].shown[0];
  EXPECT_EQ(block.property, "accuracy");
  EXPECT_EQ(block.targets, (Names{"avx2", "sse4"}));
  EXPECT_EQ(block.also_fails, Names{"scaling (forward_inference)"});
  EXPECT_EQ(block.rows.again, "the first case in plan order");
  EXPECT_EQ(kernels[0].shown[1].property, "layouts");
  EXPECT_EQ(kernels[0].shown[1].targets, Names{"sse4"});
}

TEST(Grouping, WithoutADiagnosisTheFailingOutputIsTheBlock) {
  Record record;
  record.units = {
      finding_of("layer_norm", "avx2", "accuracy", ""),         finding_of("layer_norm", "avx2", "scaling", ""),
      finding_of("layer_norm", "avx2", "epsilon", ""),          finding_of("layer_norm", "avx2", "layouts", ""),
      finding_of("layer_norm", "avx2", "saved_statistics", ""), finding_of("layer_norm", "sse4", "accuracy", "")};
  record.units[1].finding->at = "y, group 0 of 1, 3 elements";
  record.units[3].finding->problem = "layer_norm n=1 g=1 k=3 x.layout=NGKS*2 key=7";
  record.units[4].finding->at = "stat[n=0 s=0]";
  const auto kernels = group_findings(record);
  ASSERT_EQ(kernels.size(), 1U);
  ASSERT_EQ(kernels[0].shown.size(), 3U);
  // The property that is about least, the others beside it.
  EXPECT_EQ(kernels[0].shown[0].property, "epsilon");
  EXPECT_EQ(kernels[0].shown[0].also_fails, (Names{"accuracy", "scaling"}));
  EXPECT_EQ(kernels[0].shown[0].targets, (Names{"avx2", "sse4"}));
  // Another layout or another output may be another mistake.
  EXPECT_EQ(kernels[0].shown[1].property, "layouts");
  EXPECT_EQ(kernels[0].shown[2].property, "saved_statistics");
  // What shows in many properties is special to none.
  record.units.push_back(finding_of("layer_norm", "avx2", "exact_data", ""));
  EXPECT_EQ(group_findings(record)[0].shown[0].property, "accuracy");
}

TEST(Grouping, WithoutADiagnosisPhasesAndConventionsStayApart) {
  Record record;
  record.units = {finding_of("layer_norm", "avx2", "accuracy", ""), finding_of("layer_norm", "avx2", "scaling", ""),
                  finding_of("layer_norm", "avx2", "scaling", "")};
  record.units[1].phase = "forward_inference";
  record.units[2].convention = "keras";
  EXPECT_EQ(group_findings(record)[0].shown.size(), 3U);
}

TEST(Grouping, SpecialValuesAtOrdinaryElementsGiveWayToAnotherProperty) {
  Record record;
  record.units = {finding_of("layer_norm", "avx2", "special_values", "one diagnosis"),
                  finding_of("layer_norm", "avx2", "layouts", "another")};
  EXPECT_EQ(group_findings(record)[0].shown.size(), 2U);
  record.units[0].finding->error = "12 of the bound; no input that it depends on is NaN or infinite";
  auto kernels = group_findings(record);
  ASSERT_EQ(kernels[0].shown.size(), 1U);
  EXPECT_EQ(kernels[0].shown[0].property, "layouts");
  EXPECT_EQ(kernels[0].shown[0].rows.diagnosis, "another");
  EXPECT_EQ(kernels[0].shown[0].also_fails, Names{"special_values"});
  // … also with the same diagnosis; alone it stands.
  record.units[1].finding->diagnosis = "one diagnosis";
  EXPECT_EQ(group_findings(record)[0].shown[0].property, "layouts");
  record.units.pop_back();
  EXPECT_EQ(group_findings(record)[0].shown[0].property, "special_values");
}

Unit backward_finding(const char* property, const char* at) {
  Unit unit = finding_of("layer_norm", "avx2", property, "");
  unit.phase = "backward_training";
  unit.finding->at = at;
  return unit;
}

TEST(Grouping, GradientsAreGroupedByTheOneThatIsWrong) {
  const char* dx = "dx[n=0 g=0 k=2 s=0]  among 1 [2] 3";
  Record record;
  record.units = {backward_finding("finite_differences", dx), backward_finding("gradients", dx),
                  backward_finding("gradient_identities", "dx, group 0 of 1"),
                  backward_finding("split_rows", "dgamma[g=0 k=1]  among 1 [2] 3"),
                  backward_finding("cotangent_linearity", "dgamma[g=0 k=1]")};
  const auto kernels = group_findings(record);
  ASSERT_EQ(kernels.size(), 1U);
  ASSERT_EQ(kernels[0].shown.size(), 2U);
  EXPECT_EQ(kernels[0].shown[0].property, "gradients");
  EXPECT_EQ(kernels[0].shown[0].phase, "backward_training");
  EXPECT_EQ(kernels[0].shown[0].also_fails, (Names{"finite_differences", "gradient_identities"}));
  EXPECT_EQ(kernels[0].shown[1].property, "split_rows");
  EXPECT_EQ(kernels[0].shown[1].also_fails, Names{"cotangent_linearity"});
  // What shows in many properties shows on ordinary data first.
  for (const char* property : {"memory", "exact_gradients"}) record.units.push_back(backward_finding(property, dx));
  EXPECT_EQ(group_findings(record)[0].shown[0].property, "gradients");
  // Another place of dx in memory may be another mistake.
  record.units[0].finding->problem = "layer_norm n=1 g=1 k=3 in_place=1 key=7";
  record.units[1].finding->problem = "layer_norm n=1 g=1 k=3 dy.layout=ngks key=7";
  EXPECT_EQ(group_findings(record)[0].shown.size(), 4U);
}

TEST(Grouping, SpecialGradientsAtOrdinaryElementsGiveWayToo) {
  Record record;
  record.units = {backward_finding("special_gradients", "dx[n=0 g=0 k=2 s=0]"),
                  backward_finding("gradients", "dx[n=0 g=0 k=0 s=0]")};
  record.units[1].finding->diagnosis = "dx lacks a term";
  EXPECT_EQ(group_findings(record)[0].shown.size(), 2U);
  record.units[0].finding->error = "12 of the bound; no input that it depends on is NaN or infinite";
  const auto kernels = group_findings(record);
  ASSERT_EQ(kernels[0].shown.size(), 1U);
  EXPECT_EQ(kernels[0].shown[0].property, "gradients");
  EXPECT_EQ(kernels[0].shown[0].also_fails, Names{"special_gradients"});
}

TEST(Grouping, KernelsOfTwoPluginsStayApart) {
  Record record;
  record.units = {finding_of("layer_norm", "avx2", "accuracy", ""), finding_of("layer_norm", "avx2", "accuracy", "")};
  record.units[1].plugin = "plugins/normgate_plain.so";
  EXPECT_EQ(group_findings(record).size(), 2U);
  EXPECT_EQ(display_name(record, "plugins/normgate_plain.so", "layer_norm"), "normgate_plain:layer_norm");
  EXPECT_EQ(display_name(sound_record(), "plugins/normgate_simd.so", "layer_norm"), "layer_norm");
}

TEST(Grouping, AtMostSoManyBlocksPerKernel) {
  Record record;
  for (const char* property : {"accuracy", "epsilon", "scaling", "memory", "layouts", "determinism", "exact_data"}) {
    record.units.push_back(finding_of("layer_norm", "avx2", property, property));
  }
  const auto kernels = group_findings(record);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].shown.size(), 5U);
  EXPECT_EQ(kernels[0].hidden, 2);
  EXPECT_EQ(group_findings(record, 100)[0].shown.size(), 7U);
}

TEST(Grouping, AFailingUnitWithoutRowsStillSaysWhy) {
  Record record;
  record.units = {unit_of("layer_norm", "avx2", "accuracy", Verdict::mistrusted)};
  record.units[0].reason = "no element had a finite bound";
  const auto kernels = group_findings(record);
  ASSERT_EQ(kernels.size(), 1U);
  const FindingBlock& block = kernels[0].shown[0];
  EXPECT_EQ(block.verdict, Verdict::mistrusted);
  EXPECT_EQ(block.rows.says, "no element had a finite bound");
  EXPECT_EQ(block.rows.problem, "layer_norm n=2 g=1 k=8");
  EXPECT_FALSE(block.rows.again.empty());
}

}  // namespace
}  // namespace normgate
