// Every file of the fuzzer's corpus, without the fuzzer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/fuzz/tiers.hpp"

namespace normgate::fuzz {
namespace {

TEST(FuzzCorpus, AgreesOnAllTargets) {
  std::set<std::pair<Phase, Variant>> rows;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NORMGATE_FUZZ_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto trial = trial_of(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
    ASSERT_TRUE(trial) << entry.path();
    ++files;
    rows.emplace(trial->problem.phase, trial->problem.variant);
    EXPECT_EQ(complaint_about(*trial), "") << entry.path().filename() << "\n" << proof::print(*trial);
  }
  EXPECT_GT(files, 20);
  EXPECT_EQ(rows.size(), 20U);
}

TEST(FuzzBytes, MeanProblemsOfFiniteSize) {
  EXPECT_TRUE(trial_of(nullptr, 0));
  const std::vector<std::uint8_t> full(2000, 0xFF);
  const auto trial = trial_of(full.data(), full.size());
  ASSERT_TRUE(trial);
  EXPECT_LE(element_count(trial->problem.shape), 48);
  EXPECT_EQ(check(trial->problem), "");
}

}  // namespace
}  // namespace normgate::fuzz
