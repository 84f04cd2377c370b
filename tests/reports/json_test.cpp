// The JSON record, schema 1: the public fields stay.
#include "reports/formats/json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/reports/records.hpp"

namespace normgate {
namespace {

using nlohmann::json;

TEST(JsonRecord, HasThePublicFields) {
  Record record = sound_record();
  record.seed = std::numeric_limits<std::uint64_t>::max();
  record.skipped_targets.push_back({"plugins/normgate_simd.so", "avx3", "not on this CPU"});
  record.units[1] = unit_of("layer_norm", "avx2", "scaling", Verdict::failed);
  const json document = json::parse(write_json(record));
  EXPECT_EQ(document.at("schema"), 1);
  EXPECT_EQ(document.at("version"), "0.1.0");
  EXPECT_EQ(document.at("cpu"), "a CPU");
  EXPECT_EQ(document.at("seed").get<std::uint64_t>(), record.seed);
  EXPECT_EQ(document.at("effort"), "quick");
  EXPECT_EQ(document.at("verdict"), summarize(record).verdict);
  EXPECT_EQ(document.at("exit_code"), 1);
  EXPECT_EQ(document.at("counts").at("PASSED"), 7);
  EXPECT_EQ(document.at("counts").at("FAILED"), 1);
  EXPECT_EQ(document.at("counts").size(), verdict_count);
  EXPECT_EQ(document.at("skipped_targets").at(0).at("reason"), "not on this CPU");
  ASSERT_EQ(document.at("units").size(), 8U);
  const json& unit = document.at("units").at(1);
  EXPECT_EQ(unit.at("kernel"), "layer_norm");
  EXPECT_EQ(unit.at("target"), "avx2");
  EXPECT_EQ(unit.at("phase"), "forward_training");
  EXPECT_EQ(unit.at("property"), "scaling");
  EXPECT_EQ(unit.at("verdict"), "FAILED");
  EXPECT_EQ(unit.at("cases"), 10);
  EXPECT_EQ(unit.at("elements"), 1000);
  EXPECT_EQ(unit.at("worst").at("share_of_bound"), 0.25);
  EXPECT_EQ(unit.at("worst").at("row_ulp"), 1.5);
  EXPECT_EQ(unit.at("worst").at("problem"), "layer_norm n=2 g=1 k=8");
  EXPECT_EQ(unit.at("finding").at("case"), "layer_norm n=1 g=1 k=3 key=7");
  EXPECT_EQ(unit.at("finding").at("in"), "float x[] = {1, 2, 4};");
  ASSERT_EQ(document.at("findings").size(), 1U);
  EXPECT_EQ(document.at("findings").at(0).at("targets"), json::array({"avx2"}));
  EXPECT_FALSE(document.at("findings").at(0).contains("looks_like"));
}

TEST(JsonRecord, KeepsEveryFinding) {
  Record record = sound_record();
  for (const char* property : {"a", "b", "c", "d", "e", "f", "g"}) {
    record.units.push_back(unit_of("layer_norm", "avx2", property, Verdict::failed));
    record.units.back().finding->diagnosis = property;
  }
  EXPECT_EQ(json::parse(write_json(record)).at("findings").size(), 7U);
}

TEST(JsonRecord, NumbersThatJsonLacksAreText) {
  Record record = sound_record();
  record.units[0].worst.share_of_bound = std::numeric_limits<double>::infinity();
  record.units[0].worst.row_ulp = std::nan("");
  record.units[1].worst.share_of_bound = 0.1;
  const json document = json::parse(write_json(record));
  EXPECT_EQ(document.at("units").at(0).at("worst").at("share_of_bound"), "inf");
  EXPECT_EQ(document.at("units").at(0).at("worst").at("row_ulp"), "nan");
  EXPECT_EQ(document.at("units").at(1).at("worst").at("share_of_bound"), 0.1);
}

TEST(JsonRecord, MalformedTextIsReplaced) {
  Record record = sound_record();
  record.units[0].reason = "bad \xFF\xC0\x80 good \xE2\x82\xAC";
  const json document = json::parse(write_json(record));
  EXPECT_EQ(document.at("units").at(0).at("reason"), "bad \uFFFD\uFFFD\uFFFD good \u20AC");
}

}  // namespace
}  // namespace normgate
