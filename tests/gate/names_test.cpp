// Patterns, nearest names, shell quoting.
#include "gate/engine/names.hpp"

#include <gtest/gtest.h>

namespace normgate {
namespace {

TEST(Names, PatternsMatchWholeNames) {
  EXPECT_TRUE(matches("simd/*", "simd/layer_norm"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("avx?", "avx2"));
  EXPECT_TRUE(matches("*norm*", "batch_norm"));
  EXPECT_FALSE(matches("avx?", "avx"));
  EXPECT_FALSE(matches("simd", "simd/layer_norm"));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Names, NoPatternSelectsEverything) {
  EXPECT_TRUE(selected({}, "anything"));
  const std::vector<std::string> patterns{"a*", "b"};
  EXPECT_TRUE(selected(patterns, "b"));
  EXPECT_FALSE(selected(patterns, "c"));
}

TEST(Names, AWrongNameGetsTheNearestRightOnes) {
  const std::vector<std::string> kernels{"plain/batch_norm", "simd/layer_norm", "plain/layer_norm", "simd/rms_norm"};
  const std::vector<std::string> wrong{"simd/layernorm"};
  EXPECT_EQ(unknown_name("kernel", wrong, kernels),
            "no kernel is named simd/layernorm; nearest: simd/layer_norm, simd/rms_norm, plain/layer_norm");
  const std::vector<std::string> right{"simd/*", "plain/batch_norm"};
  EXPECT_EQ(unknown_name("kernel", right, kernels), "");
  EXPECT_EQ(unknown_name("target", right, {}), "no target is named simd/*; there is none at all");
}

TEST(Names, ShellWordsAreQuotedOnlyWhereNeeded) {
  EXPECT_EQ(shell_word("simd/layer_norm"), "simd/layer_norm");
  EXPECT_EQ(shell_word("my plugin.so"), "'my plugin.so'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace normgate
