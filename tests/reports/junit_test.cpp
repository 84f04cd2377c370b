// The JUnit file: unique names, failure against error, text that XML 1.0 allows.
#include "reports/formats/junit.hpp"

#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <set>
#include <string>

#include "reports/formats/list.hpp"
#include "tests/reports/records.hpp"

namespace normgate {
namespace {

pugi::xml_document parsed(const std::string& text) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_string(text.c_str());
  EXPECT_TRUE(result) << result.description() << "\n" << text;
  return document;
}

TEST(Junit, OneTestcasePerUnitWithAUniqueName) {
  Record record = sound_record();
  record.units.push_back(record.units[0]);  // a record that repeats itself must not lose a testcase
  record.units.push_back(record.units[0]);
  record.units.back().plugin = "plugins/normgate_plain.so";
  const pugi::xml_document document = parsed(write_junit(record));
  std::set<std::string> names;
  std::size_t count = 0;
  for (const auto& node : document.select_nodes("//testcase")) {
    names.insert(std::string(node.node().attribute("classname").value()) + "/" + node.node().attribute("name").value());
    EXPECT_TRUE(node.node().first_child().empty());
    ++count;
  }
  EXPECT_EQ(count, 10U);
  EXPECT_EQ(names.size(), 10U);
  EXPECT_TRUE(names.contains("normgate.rms_norm/scaling [forward_training, pytorch, float32, sse4]"));
  EXPECT_EQ(document.child("testsuites").attribute("tests").as_int(), 10);
  EXPECT_EQ(document.child("testsuites").attribute("failures").as_int(), 0);
}

TEST(Junit, VerdictsAreFailuresTheHarnessIsAnError) {
  Record record = sound_record();
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  record.units[1].verdict = Verdict::mistrusted;
  record.units[1].reason = "too many discards";
  record.units[2].verdict = Verdict::refused;
  record.units[2].reason = "float32 only";
  record.harness_errors = {"plugin 'x.so' cannot be opened"};
  const pugi::xml_document document = parsed(write_junit(record));
  const auto failures = document.select_nodes("//failure");
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_STREQ(failures[0].node().attribute("type").value(), "FAILED");
  const std::string text = failures[0].node().text().get();
  EXPECT_NE(text.find("case  layer_norm n=1 g=1 k=3 key=7\nin    float x[] = {1, 2, 4};\n"), std::string::npos) << text;
  EXPECT_NE(text.find("again normgate replay"), std::string::npos) << text;
  EXPECT_NE(std::string(failures[1].node().text().get()).find("too many discards"), std::string::npos);
  ASSERT_EQ(document.select_nodes("//skipped").size(), 1U);
  ASSERT_EQ(document.select_nodes("//error").size(), 1U);
  EXPECT_STREQ(document.select_nodes("//error")[0].node().text().get(), "plugin 'x.so' cannot be opened");
  EXPECT_EQ(document.child("testsuites").attribute("failures").as_int(), 2);
  EXPECT_EQ(document.child("testsuites").attribute("errors").as_int(), 1);
  EXPECT_EQ(document.child("testsuites").attribute("skipped").as_int(), 1);
}

TEST(Junit, NothingTestedIsAnError) {
  const pugi::xml_document document = parsed(write_junit(Record{}));
  EXPECT_EQ(document.select_nodes("//error").size(), 1U);
  Record record = sound_record();
  record.required_missing = {"avx3"};
  EXPECT_EQ(parsed(write_junit(record)).select_nodes("//error").size(), 1U);
}

TEST(Junit, ForbiddenCharactersAreGone) {
  Record record = sound_record();
  record.units[0] = unit_of("layer_norm", "avx2", "accuracy", Verdict::failed);
  record.units[0].finding->got = std::string("a\x01\x1b[31m\x0C") + '\0' + "b\xFF\xEF\xBF\xBF<&>]]>";
  const std::string text = write_junit(record);
  for (const char c : text) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') << int{c};
  EXPECT_EQ(text.find("&#"), std::string::npos) << text;
  EXPECT_EQ(text.find("\xEF\xBF\xBF"), std::string::npos);
  const std::string read = parsed(text).select_node("//failure").node().text().get();
  EXPECT_NE(read.find("b\uFFFD\uFFFD<&>]]>"), std::string::npos) << read;
}

TEST(Formats, EachIsListedOnceAndWrites) {
  std::set<std::string_view> options;
  for (const Format& format : format_list()) {
    EXPECT_TRUE(options.insert(format.option).second) << format.option;
    EXPECT_EQ(format.option, "--" + std::string(format.name));
    EXPECT_NE(format.write(sound_record()).find("rms_norm"), std::string::npos);
  }
  EXPECT_TRUE(options.contains("--json"));
  EXPECT_TRUE(options.contains("--junit"));
}

}  // namespace
}  // namespace normgate
