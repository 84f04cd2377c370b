// The corpus is data that people write: each line must be a problem, and say where it came from.
#include "properties/corpus/corpus.hpp"

#include <gtest/gtest.h>

namespace normgate {
namespace {

TEST(Corpus, EveryLineIsAProblemWithItsProvenance) {
  const auto lines = corpus_lines();
  ASSERT_GE(lines.size(), 20U);
  for (const CorpusLine& entry : lines) {
    const auto parsed = parse_problem(entry.line);
    ASSERT_TRUE(parsed.problem.has_value()) << entry.line << "\n" << parsed.error;
    EXPECT_EQ(check(*parsed.problem), "") << entry.line;
    // " 2026-11: tracker#number. …"
    EXPECT_NE(entry.provenance.find(": "), std::string::npos) << entry.line;
    EXPECT_NE(entry.provenance.find("20"), std::string::npos) << entry.line;
  }
}

}  // namespace
}  // namespace normgate
