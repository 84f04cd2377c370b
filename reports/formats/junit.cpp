#include "reports/formats/junit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <pugixml.hpp>
#include <set>
#include <sstream>

#include "reports/clean_text.hpp"
#include "reports/grouping.hpp"

namespace normgate {
namespace {

// pugixml writes control characters as references that XML 1.0 forbids; clean_text has none of them.
void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name) = clean_line(value).c_str();
}

void set_text(pugi::xml_node node, const std::string& text) {
  node.append_child(pugi::node_pcdata).set_value(clean_text(text).c_str());
}

std::string message_of(const Unit& unit) {
  std::string result;
  const auto row = [&](std::string_view label, const std::string& text) {
    if (!text.empty()) result += fmt::format("{:<5} {}\n", label, clean_lines(text, 6));
  };
  if (!unit.finding) {
    row("says", unit.reason.empty() ? "nothing was judged, and no reason was given" : unit.reason);
    row("case", unit.worst.problem);
    return result;
  }
  const FindingRows& rows = *unit.finding;
  row("says", rows.says);
  row("case", rows.problem);
  row("in", rows.in);
  row("at", rows.at);
  row("got", rows.got);
  row("want", rows.want);
  row("error", rows.error);
  row("looks like", rows.looks_like);
  row("again", rows.again);
  return result;
}

struct Suite {
  std::string name;
  pugi::xml_node node;
  std::int64_t tests = 0;
  std::int64_t failures = 0;
  std::int64_t errors = 0;
  std::int64_t skipped = 0;
  double seconds = 0;
};

class Document {
 public:
  Document() : root_(document_.append_child("testsuites")) {
    pugi::xml_node declaration = document_.prepend_child(pugi::node_declaration);
    declaration.append_attribute("version") = "1.0";
    declaration.append_attribute("encoding") = "UTF-8";
    set(root_, "name", "normgate");
  }

  Suite& suite(const std::string& name) {
    const auto known = std::find_if(suites_.begin(), suites_.end(), [&](const Suite& s) { return s.name == name; });
    if (known != suites_.end()) return *known;
    Suite added;
    added.name = name;
    added.node = root_.append_child("testsuite");
    set(added.node, "name", name);
    return suites_.emplace_back(std::move(added));
  }

  pugi::xml_node testcase(Suite& suite, const std::string& name, double seconds) {
    std::string unique = name;
    for (int number = 2; !names_.insert(suite.name + '\n' + unique).second; ++number) {
      unique = fmt::format("{} ({})", name, number);
    }
    ++suite.tests;
    suite.seconds += seconds;
    pugi::xml_node node = suite.node.append_child("testcase");
    set(node, "classname", suite.name);
    set(node, "name", unique);
    set(node, "time", fmt::format("{:.3f}", seconds));
    return node;
  }

  void add_error(const std::string& name, const std::string& type, const std::string& text) {
    Suite& gate = suite("normgate");
    ++gate.errors;
    pugi::xml_node error = testcase(gate, name, 0).append_child("error");
    set(error, "type", type);
    set(error, "message", text);
    set_text(error, text);
  }

  std::string text(double seconds) {
    std::int64_t tests = 0;
    std::int64_t failures = 0;
    std::int64_t errors = 0;
    std::int64_t skipped = 0;
    for (Suite& suite : suites_) {
      count(suite.node, suite.tests, suite.failures, suite.errors, suite.skipped, suite.seconds);
      tests += suite.tests;
      failures += suite.failures;
      errors += suite.errors;
      skipped += suite.skipped;
    }
    count(root_, tests, failures, errors, skipped, seconds);
    std::ostringstream out;
    document_.save(out, " ", pugi::format_default, pugi::encoding_utf8);
    return out.str();
  }

 private:
  static void count(pugi::xml_node node, std::int64_t tests, std::int64_t failures, std::int64_t errors,
                    std::int64_t skipped, double seconds) {
    set(node, "tests", std::to_string(tests));
    set(node, "failures", std::to_string(failures));
    set(node, "errors", std::to_string(errors));
    set(node, "skipped", std::to_string(skipped));
    set(node, "time", fmt::format("{:.3f}", seconds));
  }

  pugi::xml_document document_;
  pugi::xml_node root_;
  std::vector<Suite> suites_;
  std::set<std::string> names_;
};

void add_unit(Document& document, const Record& record, const Unit& unit) {
  Suite& suite = document.suite("normgate." + display_name(record, unit.plugin, unit.kernel));
  pugi::xml_node node = document.testcase(
      suite, fmt::format("{} [{}, {}, {}, {}]", unit.property, unit.phase, unit.convention, unit.dtype, unit.target),
      unit.seconds);
  const std::size_t colon = unit.source.rfind(':');
  if (colon != std::string::npos) {
    set(node, "file", unit.source.substr(0, colon));
    set(node, "line", unit.source.substr(colon + 1));
  }
  const Verdict verdict = verdict_of(unit);
  if (fails(verdict)) {
    ++suite.failures;
    pugi::xml_node failure = node.append_child("failure");
    set(failure, "type", std::string(name_of(verdict)));
    const std::string says = unit.finding ? unit.finding->says : unit.reason;
    set(failure, "message", fmt::format("{}: {}", name_of(verdict), says));
    set_text(failure, message_of(unit));
  } else if (!is_tested(verdict)) {
    ++suite.skipped;
    set(node.append_child("skipped"), "message", fmt::format("{}: {}", name_of(verdict), unit.reason));
  }
}

}  // namespace

std::string write_junit(const Record& record) {
  Document document;
  for (const Unit& unit : record.units) add_unit(document, record, unit);
  for (const SkippedTarget& target : record.skipped_targets) {
    Suite& gate = document.suite("normgate");
    ++gate.skipped;
    const std::string plugin = std::filesystem::path(target.plugin).stem().string();
    const std::string name =
        plugin.empty() ? "target " + target.target : fmt::format("target {} of {}", target.target, plugin);
    set(document.testcase(gate, name, 0).append_child("skipped"), "message", "SKIPPED: " + target.reason);
  }
  for (const std::string& error : record.harness_errors) document.add_error("harness", "harness", error);
  // A reader that looks at this file alone must not see success where the command did not return 0.
  const Summary summary = summarize(record);
  if (summary.exit_code == 4 || summary.exit_code == 5) {
    document.add_error("verdict", summary.exit_code == 4 ? "nothing tested" : "incomplete", summary.verdict);
  }
  return document.text(record.seconds);
}

}  // namespace normgate
