// Plans: the coverage that they guarantee, and that they are functions of variant, effort, seed and capabilities.
#include "properties/generators/plan.hpp"

#include <gtest/gtest.h>

#include <set>

#include "properties/generators/shrink.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

runner::KernelInfo kernel_of(Variant variant) {
  runner::KernelInfo kernel;
  kernel.name = "test/kernel";
  kernel.variant = variant;
  kernel.phases = {Phase::forward_training, Phase::forward_inference, Phase::backward_training,
                   Phase::backward_inference};
  const auto bit = [](Role role) { return std::uint64_t{1} << index_of(role); };
  auto& training = kernel.roles[static_cast<std::size_t>(Phase::forward_training)];
  training.supported = bit(Role::gamma) | bit(Role::beta) | bit(Role::mean) | bit(Role::stat) |
                       bit(Role::running_mean) | bit(Role::running_var) | bit(Role::running_weight);
  kernel.roles[static_cast<std::size_t>(Phase::forward_inference)] = training;
  auto& backward = kernel.roles[static_cast<std::size_t>(Phase::backward_training)];
  backward.supported = bit(Role::dy) | bit(Role::dx) | bit(Role::gamma) | bit(Role::beta) | bit(Role::dgamma) |
                       bit(Role::dbeta) | bit(Role::mean) | bit(Role::stat);
  kernel.roles[static_cast<std::size_t>(Phase::backward_inference)].supported =
      backward.supported | bit(Role::running_mean) | bit(Role::running_var) | bit(Role::running_weight);
  kernel.claim.saved_use = SavedUse::short_form;
  kernel.max_threads = 4;
  kernel.conventions = {Convention{}};
  kernel.channels_last = kernel.padded = kernel.strided = kernel.mixed = kernel.in_place = true;
  kernel.gradient_in_place = true;
  return kernel;
}

class Plans : public testing::TestWithParam<Variant> {};

TEST_P(Plans, AccuracyMeetsEveryResidueOfSixtyFourWithALargeMean) {
  const auto kernel = kernel_of(GetParam());
  const Convention convention{};
  const Subject subject{row_of(GetParam()), Phase::forward_training, kernel, convention};
  std::set<std::int64_t> residues;
  std::set<std::int64_t> lengths;
  std::set<std::pair<bool, bool>> subsets_at_1024;
  for (const Problem& problem : accuracy.plan(subject, Effort::quick, 1)) {
    ASSERT_EQ(check(problem), "") << print(problem);
    lengths.insert(group_size(problem));
    if (problem.kappa >= 30 && problem.profile == Profile::conditioned) residues.insert(group_size(problem) % 64);
    if (group_size(problem) == 1024) subsets_at_1024.insert({problem.gamma, problem.beta});
  }
  EXPECT_EQ(residues.size(), 64U);
  EXPECT_EQ(subsets_at_1024.size(), 4U);
  for (const std::int64_t length : {1, 2, 3, 255, 256, 257, 769, 1023, 1025, 2050, 4097, 5003, 65545})
    EXPECT_TRUE(lengths.contains(length)) << length;
}

TEST_P(Plans, DependOnSeedAndEffortAndNothingElse) {
  const auto kernel = kernel_of(GetParam());
  auto other = kernel;
  other.name = "test/other";
  other.claim.variance = VarianceAlgorithm::one_pass;
  const Convention convention{};
  for (const Phase phase : kernel.phases) {
    const Subject subject{row_of(GetParam()), phase, kernel, convention};
    const Subject same{row_of(GetParam()), phase, other, convention};
    for (const Property* property : property_list()) {
      if (!property->applies(subject) || !property->applies(same)) continue;
      const auto plan = property->plan(subject, Effort::quick, 3);
      EXPECT_FALSE(plan.empty()) << property->name;
      for (const Problem& problem : plan) ASSERT_EQ(check(problem), "") << property->name << ": " << print(problem);
      EXPECT_TRUE(plan == property->plan(same, Effort::quick, 3)) << property->name;
      EXPECT_FALSE(plan == property->plan(subject, Effort::quick, 4)) << property->name;
    }
  }
}

TEST_P(Plans, StayInsideWhatAKernelClaims) {
  auto kernel = kernel_of(GetParam());
  kernel.channels_last = kernel.padded = kernel.strided = kernel.mixed = kernel.in_place = false;
  kernel.gradient_in_place = false;
  kernel.max_threads = 1;
  for (auto& roles : kernel.roles) roles = {};
  const Convention convention{};
  for (const Phase phase : {Phase::forward_training, Phase::backward_training}) {
    const Subject subject{row_of(GetParam()), phase, kernel, convention};
    for (const Property* property : property_list()) {
      if (!property->applies(subject)) continue;
      for (const Problem& problem : property->plan(subject, Effort::quick, 1)) {
        EXPECT_EQ(check(problem), "") << print(problem);
        EXPECT_FALSE(problem.gamma || problem.beta || problem.saved || problem.running || problem.in_place)
            << print(problem);
        EXPECT_TRUE(problem.layout == PerRole<Layout>{}) << print(problem);
        EXPECT_EQ(problem.handed, Handed::nearest) << print(problem);
        EXPECT_EQ(problem.threads, 1) << print(problem);
        // Rows lie contiguous in memory for a kernel that claims no other layout.
        if (row_of(GetParam()).reduced == AxisSet{Axis::g, Axis::k}) {
          EXPECT_EQ(problem.shape[3], 1) << print(problem);
        }
      }
    }
  }
}

TEST_P(Plans, UndeclaredUsesAreHandedTheTrueStatistics) {
  auto kernel = kernel_of(GetParam());
  kernel.claim.saved_use = SavedUse::undeclared;
  const Convention convention{};
  const Subject subject{row_of(GetParam()), Phase::backward_training, kernel, convention};
  for (const Problem& problem : gradients.plan(subject, Effort::quick, 1))
    EXPECT_EQ(problem.handed, Handed::nearest) << print(problem);
}

TEST_P(Plans, KernelsThatWorkFromYAreHandedIt) {
  auto kernel = kernel_of(GetParam());
  kernel.claim.saved_use = SavedUse::from_output;
  const auto mean = std::uint64_t{1} << index_of(Role::mean);
  auto& roles = kernel.roles[static_cast<std::size_t>(Phase::backward_training)];
  roles.supported &= ~mean;
  roles.required = std::uint64_t{1} << index_of(Role::stat);
  const Convention convention{};
  const Subject subject{row_of(GetParam()), Phase::backward_training, kernel, convention};
  for (const Property* property : property_list()) {
    if (!property->applies(subject)) continue;
    for (const Problem& problem : property->plan(subject, Effort::quick, 1)) {
      EXPECT_EQ(check(problem), "") << print(problem);
      EXPECT_TRUE(problem.from_output) << print(problem);
    }
  }
}

TEST_P(Plans, GradientsCoverLengthsCotangentsAndWhatIsHanded) {
  const auto kernel = kernel_of(GetParam());
  const Convention convention{};
  for (const Phase phase : {Phase::backward_training, Phase::backward_inference}) {
    const bool training = phase == Phase::backward_training;
    const Subject subject{row_of(GetParam()), phase, kernel, convention};
    std::set<std::int64_t> residues, lengths, counts;
    std::set<std::pair<bool, bool>> subsets_at_1024;
    std::set<std::pair<Cotangent, Handed>> cotangents;
    std::set<Profile> profiles;
    std::set<Given> given;
    std::set<bool> saved, in_place, expanded, pooled, apart, many_threads;
    for (const Problem& problem : gradients.plan(subject, Effort::quick, 1)) {
      lengths.insert(group_size(problem));
      counts.insert(group_count(problem));
      if (problem.kappa >= 30) residues.insert(group_size(problem) % 64);
      if (group_size(problem) == 1024) subsets_at_1024.insert({problem.gamma, problem.beta});
      if (problem.saved || !training) cotangents.insert({problem.cotangent, problem.handed});
      profiles.insert(problem.profile);
      given.insert(problem.given);
      saved.insert(problem.saved);
      in_place.insert(problem.in_place);
      many_threads.insert(problem.threads > 1);
      const Layout& dy = problem.layout[Role::dy];
      expanded.insert(dy.broadcast == AxisSet{Axis::n, Axis::g, Axis::k, Axis::s});
      pooled.insert(dy.broadcast == AxisSet{Axis::s} && problem.shape[3] > 1);
      apart.insert(dy.order != problem.layout[Role::x].order);
    }
    if (training) {
      EXPECT_EQ(residues.size(), 64U);
      EXPECT_EQ(cotangents.size(), 12U);
      EXPECT_EQ(saved.size(), 2U);
      EXPECT_TRUE(lengths.contains(65536 + 9));
    } else {
      EXPECT_EQ(cotangents.size(), 6U);
      EXPECT_EQ(given.size(), row_of(GetParam()).running.empty() ? 1U : 2U);
    }
    EXPECT_EQ(subsets_at_1024.size(), 4U);
    EXPECT_GE(profiles.size(), 8U);
    for (const std::int64_t length : {1, 2, 3, 256, 1024, 4096, 16384 + 3}) EXPECT_TRUE(lengths.contains(length));
    EXPECT_GE(*counts.rbegin(), 5000);
    EXPECT_EQ(in_place.size(), 2U);
    EXPECT_EQ(expanded.size(), 2U);
    EXPECT_EQ(pooled.size(), 2U);
    EXPECT_EQ(apart.size(), 2U);
    EXPECT_EQ(many_threads.size(), 2U);
  }
}

TEST_P(Plans, SmallerProblemsStayInsideTheClaim) {
  const auto kernel = kernel_of(GetParam());
  const Convention convention{};
  for (const Phase phase : kernel.phases) {
    const Subject subject{row_of(GetParam()), phase, kernel, convention};
    for (const Property* property : property_list()) {
      if (!property->applies(subject)) continue;
      const auto plan = property->plan(subject, Effort::quick, 1);
      for (std::size_t i = 0; i < plan.size(); i += 41)
        for (const Problem& candidate : smaller(plan[i])) {
          EXPECT_EQ(check(candidate), "") << print(candidate);
          EXPECT_EQ(check(inside_claim(candidate, subject)), "") << print(candidate);
          EXPECT_EQ(candidate.phase, phase);
        }
    }
  }
}

TEST_P(Plans, ShapesHaveTheGroupsThatTheyAreAskedFor) {
  const auto& row = row_of(GetParam());
  for (const std::int64_t length : {1, 2, 7, 60, 64, 1000})
    for (std::uint64_t choice = 0; choice < 70000; choice += 613) {
      Problem problem;
      problem.variant = GetParam();
      problem.shape = shape_with(row, length, 5, choice);
      EXPECT_EQ(group_size(problem), length);
      EXPECT_GE(group_count(problem), 5);
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, Plans,
                         testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                         Variant::instance_norm, Variant::rms_norm),
                         [](const auto& info) { return std::string(row_of(info.param).name); });

}  // namespace
}  // namespace normgate
