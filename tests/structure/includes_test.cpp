// Who may include whom: each #include in the tree against one table. To add a folder: a line in the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace normgate {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

struct Rule {
  std::string folder;  // the first line whose folder holds the file counts
  Names may_include;   // beside the folder itself; a name is a folder or a file of the project
};

const std::vector<Rule>& table() {
  static const std::vector<Rule> rules{
      {"kernels/abi", {}},
      {"kernels/built_in", {"kernels/abi"}},
      {"kernels/plain", {"kernels/abi", "kernels/built_in"}},
      {"kernels/simd", {"kernels/abi", "kernels/built_in"}},
      {"kernels/peers", {"kernels/abi"}},
      {"kernels/broken", {"kernels/abi"}},
      {"kernels/runner", {"kernels/abi", "reference/problem"}},
      {"reference", {}},
      {"properties", {"kernels/runner", "reference"}},
      {"reports", {"reference/problem"}},
      {"gate/engine", {"kernels/runner", "properties", "reference", "reports/record.hpp"}},
      {"gate/proof", {"reference"}},
      {"gate/verbs", {"kernels", "properties", "reference", "reports", "gate/bench", "gate/engine", "gate/proof"}},
      {"gate/bench", {"kernels", "properties", "reference", "reports", "gate/engine"}},
      {"tests", {"kernels", "properties", "reference", "reports", "gate", "tests"}},
  };
  return rules;
}

bool is_in(const std::string& file, const std::string& folder) {
  return file == folder || file.starts_with(folder + "/");
}

// Empty, or why `file` may not include `included`. Both are paths from the root of the project.
std::string objection(const std::string& file, const std::string& included, bool in_project) {
  if (!in_project) {
    // In reference/: seconds per file, and types that must not leave it.
    const Names prefixes{"boost/", "Eigen/", "hwy/", "gmp", "mpf"};
    const bool heavy = std::any_of(prefixes.begin(), prefixes.end(),
                                   [&](const std::string& prefix) { return included.starts_with(prefix); });
    const bool source = file.ends_with(".cpp") || file.ends_with("-inl.h");
    return heavy && !source && is_in(file, "reference")
               ? file + " includes <" + included + ">, which belongs into .cpp and -inl.h"
               : "";
  }
  const auto rule = std::find_if(table().begin(), table().end(), [&](const Rule& r) { return is_in(file, r.folder); });
  if (rule == table().end()) return file + " is in a folder that the table does not have";
  const bool allowed =
      is_in(included, rule->folder) || std::any_of(rule->may_include.begin(), rule->may_include.end(),
                                                   [&](const std::string& name) { return is_in(included, name); });
  return allowed ? "" : file + " includes " + included + ", which " + rule->folder + " may not";
}

TEST(Structure, IncludesFollowTheTable) {
  const fs::path root = NORMGATE_SOURCE_FOLDER;
  const std::regex directive(R"(^\s*#\s*(?:include|define\s+HWY_TARGET_INCLUDE)\s*["<]([^">]+)[">])");
  int seen = 0;
  for (const char* top : {"reference", "kernels", "properties", "reports", "gate", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".h" && extension != ".c") continue;
      const std::string file = entry.path().lexically_relative(root).generic_string();
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) {
        std::smatch match;
        if (!std::regex_search(line, match, directive)) continue;
        const fs::path beside = (entry.path().parent_path() / match[1].str()).lexically_normal();
        const bool is_beside = fs::exists(beside) && line.find('"') != std::string::npos;
        const std::string included = is_beside ? beside.lexically_relative(root).generic_string() : match[1].str();
        const std::string why = objection(file, included, fs::exists(root / included));
        EXPECT_EQ(why, "");
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 100);
}

TEST(Structure, TheTableObjects) {
  const auto allowed = [](const char* file, const char* included) { return objection(file, included, true).empty(); };
  EXPECT_TRUE(allowed("kernels/simd/rows.cpp", "kernels/abi/normgate.h"));
  EXPECT_FALSE(allowed("kernels/simd/rows.cpp", "kernels/plain/forward.hpp"));
  EXPECT_FALSE(allowed("kernels/abi/normgate.h", "reference/problem/claim.hpp"));
  EXPECT_FALSE(allowed("reference/truth/forward.cpp", "kernels/abi/normgate.h"));
  EXPECT_TRUE(allowed("kernels/runner/runner.hpp", "reference/problem/claim.hpp"));
  EXPECT_FALSE(allowed("kernels/runner/runner.hpp", "reference/truth/exact.hpp"));
  EXPECT_FALSE(allowed("properties/list.cpp", "reports/record.hpp"));
  EXPECT_TRUE(allowed("gate/engine/run.hpp", "reports/record.hpp"));
  EXPECT_FALSE(allowed("gate/engine/run.hpp", "reports/files.hpp"));
  EXPECT_FALSE(allowed("reports/formats/json.cpp", "gate/engine/run.hpp"));
  EXPECT_FALSE(allowed("gate/engine/run.hpp", "gate/verbs/check.hpp"));
  EXPECT_FALSE(allowed("tools/x.cpp", "reports/record.hpp"));
  EXPECT_NE(objection("reference/truth/exact.hpp", "boost/multiprecision/mpfr.hpp", false), "");
  EXPECT_EQ(objection("reference/truth/forward.cpp", "boost/multiprecision/mpfr.hpp", false), "");
  EXPECT_EQ(objection("reference/truth/definition-inl.h", "Eigen/Core", false), "");
  EXPECT_EQ(objection("kernels/simd/targets.hpp", "hwy/targets.h", false), "");
}

}  // namespace
}  // namespace normgate
