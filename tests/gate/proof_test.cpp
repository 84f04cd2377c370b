// The truth tried by its own tiers: problems that are built backwards hit their boundary, and wrong answers are seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "gate/proof/boundaries.hpp"
#include "gate/proof/prover.hpp"

namespace normgate::proof {
namespace {

class OfFamily : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Boundaries, OfFamily, ::testing::ValuesIn(families().begin(), families().end()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST_P(OfFamily, HitsItsBoundary) {
  Draw draw(0xB0);
  int on = 0;
  int exact = 0;
  std::set<Variant> variants;
  for (int drawn = 0, attempts = 0; drawn < 150; ++attempts) {
    ASSERT_LT(attempts, 3000);
    const std::optional<Trial> trial = GetParam().draw(draw);
    if (!trial) continue;
    ++drawn;
    SCOPED_TRACE(print(*trial));
    ASSERT_EQ(check(trial->problem), "");
    ASSERT_TRUE(trial->known);
    on += trial->known->side == 0 ? 1 : 0;
    variants.insert(trial->problem.variant);
    const Agreement agreement = agreement_of(*trial, make_inputs(trial->problem));
    exact += agreement.counts.exact + agreement.counts.intervals > 0 ? 1 : 0;
    for (const std::string& sentence : agreement.disagreements) ADD_FAILURE() << sentence;
    for (const std::string& sentence : agreement.undecided) ADD_FAILURE() << sentence;
    if (HasFailure()) return;
    // What is said to be known counts.
    Trial wrong = *trial;
    wrong.known->side = trial->known->side == 0 ? 1 : 0;
    EXPECT_FALSE(agreement_of(wrong, make_inputs(wrong.problem)).disagreements.empty());
    wrong = *trial;
    const std::int64_t ordinal = tiers::ordinal_of(trial->known->rounded, trial->format);
    wrong.known->rounded = tiers::value_at(ordinal > 0 ? ordinal - 1 : ordinal + 1, trial->format);
    EXPECT_FALSE(agreement_of(wrong, make_inputs(wrong.problem)).disagreements.empty());
  }
  EXPECT_GT(on, 50);
  EXPECT_GT(exact, 50);
  EXPECT_GE(variants.size(), GetParam().name == "reciprocal" ? 1U : 2U);
}

TEST(Prover, TriesEveryPhaseVariantProfileUseAndFormat) {
  std::set<std::pair<Phase, Variant>> rows;
  std::set<Profile> profiles;
  std::set<SavedUse> uses;
  std::set<tiers::Format> formats_seen;
  std::int64_t longest = 0;
  int built = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const Trial trial = trial_of(3, i);
    ASSERT_EQ(check(trial.problem), "") << print(trial);
    rows.emplace(trial.problem.phase, trial.problem.variant);
    profiles.insert(trial.problem.profile);
    uses.insert(trial.use);
    formats_seen.insert(trial.format);
    longest = std::max(longest, group_size(trial.problem));
    built += trial.known ? 1 : 0;
    if (i % 50 != 0) continue;
    const ProblemOrError parsed = parse_problem(normgate::print(trial.problem));
    ASSERT_TRUE(parsed.problem) << parsed.error;
    EXPECT_EQ(normgate::print(*parsed.problem), normgate::print(trial.problem));
  }
  EXPECT_EQ(rows.size(), 20U);
  EXPECT_EQ(profiles.size(), 10U);
  EXPECT_EQ(uses.size(), 5U);
  EXPECT_EQ(formats_seen.size(), 3U);
  EXPECT_GT(longest, 500);
  EXPECT_EQ(built, 200);
}

TEST(Prover, FindsTheSameWithAnyNumberOfThreads) {
  const auto proof_with = [](int threads) {
    return prove({.problems = 400, .from = 100, .seed = 5, .threads = threads}, [](std::int64_t) {});
  };
  const Proof one = proof_with(1);
  const Proof three = proof_with(3);
  EXPECT_EQ(one.problems, 400);
  EXPECT_EQ(one.built, 40);
  EXPECT_GT(one.covered, 300);
  EXPECT_EQ(one.disagreements, 0);
  EXPECT_EQ(one.undecided, 0);
  EXPECT_GT(one.counts.fast, one.counts.exact);
  EXPECT_GT(one.counts.exact, 0);
  // A certificate below the error would be a disagreement.
  EXPECT_GE(one.tightest.ratio, 0.99);
  EXPECT_EQ(one.counts, three.counts);
  EXPECT_EQ(one.enclosed, three.enclosed);
  EXPECT_EQ(one.sides, three.sides);
  EXPECT_EQ(one.tightest.problem, three.tightest.problem);
  EXPECT_EQ(one.tightest.ratio, three.tightest.ratio);
}

TEST(Prover, NamesWhatATrialIs) {
  for (const tiers::Format format : formats) EXPECT_EQ(format_named(name_of(format)), format);
  for (int use = 0; use < 5; ++use)
    EXPECT_EQ(use_named(name_of(static_cast<SavedUse>(use))), static_cast<SavedUse>(use));
  EXPECT_FALSE(format_named("float64"));
  EXPECT_FALSE(use_named(""));
}

}  // namespace
}  // namespace normgate::proof
