// A shard's result comes back from text as it was.
#include "gate/engine/record_transfer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace normgate {
namespace {

TEST(RecordTransfer, NothingIsLost) {
  UnitTally tally;
  tally.unit.kernel = "simd/layer_norm";
  tally.unit.plugin = "plugins/\"odd\" name.so";
  tally.unit.target = "avx2";
  tally.unit.phase = "forward_training";
  tally.unit.convention = "pytorch";
  tally.unit.property = "accuracy";
  tally.unit.cases = 12;
  tally.unit.refused_cases = 1;
  tally.unit.failed_cases = 3;
  tally.unit.elements = 1'000'000'000'000;
  tally.unit.not_judged = 4;
  tally.unit.seconds = 0.1;
  tally.unit.worst = {std::numeric_limits<double>::infinity(), 0x1.123456789abcdp-3, "line", "y"};
  tally.unit.worst_of_outputs = {{"dgamma", "ones", std::numeric_limits<double>::infinity(), "dgamma[…]", "line", 3},
                                 {"dx", "unit", 0.1, "dx[…]", "another line", 8}};
  tally.discarded = 2;
  tally.grave = 1;
  tally.stopped = true;
  tally.given_up = "no memory";
  tally.worst_index = 7;
  tally.refusal_index = 5;
  tally.refusal = "odd\nlines";
  tally.failure = Failure{Verdict::crashed, 9, "problem", {"at", "got", "want", "error", "looks", "diagnosis"}};
  UnitTally empty;
  const ShardOrError parsed = parse_shard(print_shard({{tally, empty}, {"an error"}}));
  ASSERT_TRUE(parsed.result) << parsed.error;
  ASSERT_EQ(parsed.result->tallies.size(), 2U);
  EXPECT_EQ(parsed.result->harness_errors, std::vector<std::string>{"an error"});
  const UnitTally& back = parsed.result->tallies[0];
  EXPECT_EQ(back.unit.plugin, tally.unit.plugin);
  EXPECT_EQ(back.unit.elements, tally.unit.elements);
  EXPECT_EQ(back.unit.seconds, tally.unit.seconds);
  EXPECT_TRUE(std::isinf(back.unit.worst.share_of_bound));
  EXPECT_EQ(back.unit.worst.row_ulp, tally.unit.worst.row_ulp);
  ASSERT_EQ(back.unit.worst_of_outputs.size(), 2U);
  EXPECT_TRUE(std::isinf(back.unit.worst_of_outputs[0].share_of_bound));
  EXPECT_EQ(back.unit.worst_of_outputs[1].share_of_bound, 0.1);
  EXPECT_EQ(back.unit.worst_of_outputs[1].problem, "another line");
  EXPECT_EQ(back.refusal, tally.refusal);
  EXPECT_EQ(back.worst_index, 7);
  EXPECT_TRUE(back.stopped);
  ASSERT_TRUE(back.failure);
  EXPECT_EQ(back.failure->verdict, Verdict::crashed);
  EXPECT_EQ(back.failure->violation.diagnosis, "diagnosis");
  EXPECT_FALSE(parsed.result->tallies[1].failure);
  // Text of text: nothing that print_shard writes was dropped on the way.
  EXPECT_EQ(print_shard(*parsed.result), print_shard({{tally, empty}, {"an error"}}));
}

TEST(RecordTransfer, WhatIsNotAResultIsAnError) {
  EXPECT_FALSE(parse_shard("").result);
  EXPECT_FALSE(parse_shard("{\"units\": [{}], \"harness_errors\": []}").result);
  EXPECT_NE(parse_shard("{").error, "");
}

}  // namespace
}  // namespace normgate
