// The convention table: facts, text, neighbours.
#include "reference/problem/convention.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/abi/normgate.h"
#include "tests/reference/problem/random_problem.hpp"

namespace normgate {
namespace {

Convention preset(std::string_view name) {
  for (const ConventionPreset& each : convention_table())
    if (each.name == name) return each.convention;
  ADD_FAILURE() << "no preset " << name;
  return {};
}

TEST(Convention, EveryPresetParsesByItsNameAndHasASource) {
  EXPECT_EQ(convention_table().size(), 10U);
  std::set<std::string_view> names;
  for (const ConventionPreset& each : convention_table()) {
    const ConventionOrError parsed = parse_convention(each.name);
    ASSERT_TRUE(parsed.convention) << parsed.error;
    EXPECT_TRUE(*parsed.convention == each.convention) << each.name;
    EXPECT_FALSE(each.source.empty()) << each.name;
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
  }
}

TEST(Convention, ZerosArePyTorch) {
  EXPECT_TRUE(preset("pytorch") == Convention{});
  EXPECT_EQ(static_cast<int>(Convention{}.stored), NG_STORE_N_MINUS_1);
  EXPECT_EQ(print(Convention{}), "pytorch");
}

TEST(Convention, WhatFrameworksDisagreeOn) {
  EXPECT_EQ(preset("tensorflow").stored, StoredDivisor::n_minus_1);
  EXPECT_EQ(preset("tensorflow").single, SingleCount::zero);
  EXPECT_EQ(preset("caffe").momentum, MomentumForm::accumulated_weight);
  EXPECT_EQ(preset("caffe").stored, StoredDivisor::n_minus_1);
  EXPECT_EQ(preset("darknet").eps, EpsPlacement::outside);
  EXPECT_EQ(preset("darknet").normalizing, NormalizingDivisor::n_minus_1);
  EXPECT_EQ(preset("cudnn").momentum, MomentumForm::new_weight);
  for (const std::string_view name : {"keras", "onnx", "flax", "paddle"}) {
    EXPECT_EQ(preset(name).stored, StoredDivisor::n) << name;
    EXPECT_EQ(preset(name).momentum, MomentumForm::old_weight) << name;
  }
  // The layer of introductory texts is not PyTorch's, which normalizes with n and stores n-1.
  EXPECT_EQ(preset("sample_variance").normalizing, NormalizingDivisor::n_minus_1);
  EXPECT_EQ(preset("sample_variance").stored, StoredDivisor::n_minus_1);
  EXPECT_EQ(preset("pytorch").normalizing, NormalizingDivisor::n);
}

TEST(Convention, DifferencesFromAPreset) {
  const ConventionOrError parsed = parse_convention("pytorch,normalizing:n_minus_1,eps:outside");
  ASSERT_TRUE(parsed.convention) << parsed.error;
  EXPECT_EQ(parsed.convention->normalizing, NormalizingDivisor::n_minus_1);
  EXPECT_EQ(parsed.convention->eps, EpsPlacement::outside);
  // The preset with the fewest differences: sample_variance and one.
  EXPECT_EQ(print(*parsed.convention), "sample_variance,eps:outside");
}

RC_GTEST_PROP(Convention, PrintAndParseAreInverse, ()) {
  const Convention convention = testing::random_convention();
  const ConventionOrError parsed = parse_convention(print(convention));
  RC_ASSERT(parsed.convention.has_value());
  RC_ASSERT(*parsed.convention == convention);
}

TEST(Convention, ErrorsNameTheFieldAndWhatIsRight) {
  const auto error = [](std::string_view text) { return parse_convention(text).error; };
  EXPECT_NE(error("pytorhc").find("the nearest is pytorch"), std::string::npos) << error("pytorhc");
  EXPECT_NE(error("").find("no preset ''"), std::string::npos) << error("");
  EXPECT_NE(error("pytorch,ep:inside").find("right is eps:…"), std::string::npos) << error("pytorch,ep:inside");
  EXPECT_NE(error("pytorch,eps:above").find("eps is 'above'; right is inside, outside or floor"), std::string::npos);
  EXPECT_NE(error("pytorch,eps:floor,eps:inside").find("eps is given twice"), std::string::npos);
  EXPECT_NE(error("pytorch,").find("no difference"), std::string::npos);
  EXPECT_NE(error("pytorch,eps").find("no difference"), std::string::npos);
}

TEST(Convention, OneFieldAwayTellsTheDifference) {
  std::set<std::string> differences;
  for (const NamedConvention& each : one_field_away({})) {
    EXPECT_FALSE(each.convention == Convention{}) << each.difference;
    EXPECT_TRUE(differences.insert(each.difference).second) << each.difference;
  }
  // Two values of normalizing, stored, gamma and saved, three of eps, four of momentum.
  EXPECT_EQ(differences.size(), 4U + 2U + 3U);
  EXPECT_TRUE(differences.count("stored divisor n; declared n-1"));
  EXPECT_TRUE(differences.count("normalizing divisor n-1; declared n"));
  EXPECT_TRUE(differences.count("momentum weighs the old value; declared the new value"));
  EXPECT_TRUE(differences.count("eps outside the root; declared inside"));
}

RC_GTEST_PROP(Convention, OneFieldAwayIsSymmetric, ()) {
  const Convention convention = testing::random_convention();
  for (const NamedConvention& each : one_field_away(convention)) {
    const auto back = one_field_away(each.convention);
    RC_ASSERT(std::any_of(back.begin(), back.end(),
                          [&](const NamedConvention& other) { return other.convention == convention; }));
  }
}

}  // namespace
}  // namespace normgate
