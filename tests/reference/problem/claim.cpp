// Depths of sums: the formulas of the C ABI's header, and that no real summation tree of the kind is deeper.
#include "reference/problem/claim.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace normgate {
namespace {

Sum sum_of(SumOrder order, std::int64_t lanes, std::int64_t block) { return {order, lanes, block}; }

TEST(Claim, DepthFormulas) {
  EXPECT_EQ(depth({}, 768), 767);
  EXPECT_EQ(depth(sum_of(SumOrder::interleaved, 8, 1), 768), 96 + 3);
  EXPECT_EQ(depth(sum_of(SumOrder::interleaved, 16, 1), 769), 49 + 4);
  EXPECT_EQ(depth(sum_of(SumOrder::interleaved, 12, 1), 120), 10 + 4);
  EXPECT_EQ(depth(sum_of(SumOrder::pairwise, 8, 128), 1 << 20), 16 + 3 + 13);
  EXPECT_EQ(depth(sum_of(SumOrder::pairwise, 1, 1), 1 << 20), 1 + 20);
  EXPECT_EQ(depth(sum_of(SumOrder::blocked, 8, 128), 1280), 16 + 3 + 10);
}

TEST(Claim, DepthOfShortSumsIsAtMostTheirAdditions) {
  for (const SumOrder order : {SumOrder::sequential, SumOrder::interleaved, SumOrder::pairwise, SumOrder::blocked}) {
    EXPECT_EQ(depth(sum_of(order, 64, 256), 0), 0);
    EXPECT_EQ(depth(sum_of(order, 64, 256), 1), 0);
    EXPECT_EQ(depth(sum_of(order, 64, 256), 2), 1);
    EXPECT_EQ(depth(sum_of(order, 64, 256), 3), 2);
  }
}

TEST(Claim, DepthOfAbsurdClaimsIsFinite) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const SumOrder order : {SumOrder::sequential, SumOrder::interleaved, SumOrder::pairwise, SumOrder::blocked})
    for (const std::int64_t lanes : {-huge, std::int64_t{0}, std::int64_t{1}, huge})
      for (const std::int64_t block : {-huge, std::int64_t{0}, std::int64_t{1}, huge}) {
        EXPECT_GE(depth(sum_of(order, lanes, block), 1000), 1);
        EXPECT_LE(depth(sum_of(order, lanes, block), 1000), 999);
      }
}

// Rounded additions on the longest path to a partial sum; -1: the sum is still zero.
int add(int a, int b) { return a < 0 ? b : b < 0 ? a : std::max(a, b) + 1; }

int tree(std::vector<int> parts) {
  while (parts.size() > 1) {
    std::vector<int> next;
    for (std::size_t i = 0; i < parts.size(); i += 2)
      next.push_back(i + 1 < parts.size() ? add(parts[i], parts[i + 1]) : parts[i]);
    parts = std::move(next);
  }
  return parts.empty() ? -1 : parts.front();
}

int lanes_sum(std::int64_t n, std::int64_t lanes) {
  std::vector<int> partial(static_cast<std::size_t>(lanes), -1);
  for (std::int64_t i = 0; i < n; ++i) {
    int& lane = partial[static_cast<std::size_t>(i % lanes)];
    lane = add(lane, 0);
  }
  return tree(std::move(partial));
}

RC_GTEST_PROP(Claim, NoSummationIsDeeper, ()) {
  const auto n = *rc::gen::inRange<std::int64_t>(1, 400);
  const auto lanes = *rc::gen::inRange<std::int64_t>(1, 20);
  const auto block = *rc::gen::inRange<std::int64_t>(1, 70);
  RC_ASSERT(depth(sum_of(SumOrder::interleaved, lanes, 1), n) >= lanes_sum(n, lanes));
  std::vector<int> blocks;
  for (std::int64_t begin = 0; begin < n; begin += block)
    blocks.push_back(lanes_sum(std::min(block, n - begin), lanes));
  RC_ASSERT(depth(sum_of(SumOrder::pairwise, lanes, block), n) >= tree(blocks));
  int sequential = -1;
  for (const int each : blocks) sequential = add(sequential, each);
  RC_ASSERT(depth(sum_of(SumOrder::blocked, lanes, block), n) >= sequential);
}

}  // namespace
}  // namespace normgate
