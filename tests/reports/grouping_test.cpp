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

TEST(Grouping, WithoutADiagnosisPropertiesStayApart) {
  Record record;
  record.units = {finding_of("layer_norm", "avx2", "accuracy", ""), finding_of("layer_norm", "avx2", "scaling", ""),
                  finding_of("layer_norm", "sse4", "accuracy", "")};
  const auto kernels = group_findings(record);
  ASSERT_EQ(kernels.size(), 1U);
  ASSERT_EQ(kernels[0].shown.size(), 2U);
  EXPECT_EQ(kernels[0].shown[0].targets, (Names{"avx2", "sse4"}));
  EXPECT_TRUE(kernels[0].shown[0].also_fails.empty());
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
    record.units.push_back(finding_of("layer_norm", "avx2", property, ""));
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
