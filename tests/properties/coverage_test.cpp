// Coverage: the plans of all properties together leave nothing out that a kernel claims, and what is left out is told.
#include "properties/generators/coverage.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/generators/plan.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

// Every capability, so that every cell is possible.
runner::KernelInfo capable_kernel(Variant variant) {
  runner::KernelInfo kernel;
  kernel.name = "test/capable";
  kernel.variant = variant;
  for (const Phase phase : judged_phases) {
    kernel.phases.push_back(phase);
    kernel.roles[static_cast<std::size_t>(phase)].supported = ~std::uint64_t{0};
  }
  kernel.claim.saved_use = SavedUse::short_form;
  kernel.max_threads = 8;
  kernel.conventions = {Convention{}};
  kernel.channels_last = kernel.padded = kernel.strided = kernel.mixed = true;
  kernel.in_place = kernel.gradient_in_place = true;
  return kernel;
}

std::vector<Problem> planned(const Subject& subject, Effort effort) {
  std::vector<Problem> problems;
  for (const Property* property : property_list()) {
    if (!property->applies(subject)) continue;
    std::vector<Problem> plan = property->plan(subject, effort, 1);
    std::move(plan.begin(), plan.end(), std::back_inserter(problems));
  }
  return problems;
}

constexpr Phase phases[] = {Phase::forward_training, Phase::forward_inference, Phase::backward_training,
                            Phase::backward_inference};

std::string first_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 10); ++i) text += names[i] + "; ";
  return text;
}

const CoverageRow* row_named(const std::vector<CoverageRow>& rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const CoverageRow& r) { return r.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

class Coverage : public testing::TestWithParam<Variant> {};

TEST_P(Coverage, TheQuickAndTheStandardPlanLeaveNothingOut) {
  const runner::KernelInfo kernel = capable_kernel(GetParam());
  const Convention convention{};
  for (const Phase phase : phases)
    for (const Effort effort : {Effort::quick, Effort::standard}) {
      const Subject subject{row_of(GetParam()), phase, kernel, convention};
      const std::vector<CoverageRow> rows = coverage_of(subject, effort, planned(subject, effort));
      for (const CoverageRow& row : rows) {
        EXPECT_EQ(row.covered + static_cast<std::int64_t>(row.missing.size()), row.possible) << row.name;
        if (row.guaranteed) {
          EXPECT_EQ(row.covered, row.possible) << name_of(phase) << ", " << row.name << ": " << first_of(row.missing);
        }
      }
    }
}

TEST_P(Coverage, WhatIsPossibleIsWhatTheSentencesSay) {
  const runner::KernelInfo kernel = capable_kernel(GetParam());
  const Convention convention{};
  for (const Phase phase : phases) {
    const Subject subject{row_of(GetParam()), phase, kernel, convention};
    const std::vector<CoverageRow> rows = coverage_of(subject, Effort::quick, {});
    for (const CoverageRow& row : rows) EXPECT_EQ(row.covered, 0) << row.name;
    // gamma and beta; saved statistics in training; running ones in the training and in the inference of two rows.
    const bool has_running = !subject.row.running.empty();
    std::int64_t subsets = 4;
    if (is_training(phase)) subsets *= 2;
    if (has_running && phase != Phase::backward_training) subsets *= 2;
    const auto possible = [&](std::string_view name) {
      const CoverageRow* row = row_named(rows, name);
      return row == nullptr ? 0 : row->possible;
    };
    EXPECT_EQ(possible("profile, length modulo 64"), 10 * 64);
    EXPECT_EQ(possible("length modulo 64, optional tensors"), 64 * subsets) << name_of(phase);
    EXPECT_EQ(possible("profile, optional tensors"), 10 * subsets);
    EXPECT_EQ(possible("profile, length modulo 64, optional tensors"), 10 * 64 * subsets);
    EXPECT_EQ(possible("cotangent, profile"), is_backward(phase) ? 60 : 0);
    EXPECT_EQ(possible("cotangent, handed statistics"), phase == Phase::backward_training ? 12 : 0);
    EXPECT_EQ(possible("place in memory"), 16 + 4 + 2 + 2 + 3);
    EXPECT_EQ(possible("order of eps"), 8);
    EXPECT_EQ(possible("eps against the variance"), 4);
    // At least dense, channels last, other order, padded and strided for the two large tensors.
    EXPECT_GE(possible("tensor, layout"), 10);
  }
}

TEST_P(Coverage, WhatAPlanLeavesOutIsTold) {
  const runner::KernelInfo kernel = capable_kernel(GetParam());
  const Convention convention{};
  const Subject subject{row_of(GetParam()), Phase::forward_training, kernel, convention};
  std::vector<Problem> problems = planned(subject, Effort::quick);
  std::erase_if(problems, [](const Problem& p) { return p.profile == Profile::drift && group_size(p) % 64 == 13; });
  const std::vector<CoverageRow> rows = coverage_of(subject, Effort::quick, problems);
  const CoverageRow* row = row_named(rows, "profile, length modulo 64");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->missing, std::vector<std::string>{"drift 13"});
  const std::vector<Problem> more =
      missing_problems(subject, Effort::quick, problems, [](Profile profile) { return profile == Profile::drift; });
  ASSERT_FALSE(more.empty());
  EXPECT_EQ(more.front().profile, Profile::drift);
  EXPECT_EQ(group_size(more.front()) % 64, 13);
  EXPECT_EQ(check(more.front()), "");
}

// A kernel of contiguous rows without options is asked for nothing else, and still for every length.
TEST_P(Coverage, OnlyWhatIsClaimedCounts) {
  runner::KernelInfo kernel;
  kernel.variant = GetParam();
  kernel.phases = {Phase::forward_training};
  kernel.conventions = {Convention{}};
  kernel.roles[static_cast<std::size_t>(Phase::forward_training)].supported = 0;
  const Convention convention{};
  const Subject subject{row_of(GetParam()), Phase::forward_training, kernel, convention};
  const std::vector<CoverageRow> rows = coverage_of(subject, Effort::quick, planned(subject, Effort::quick));
  for (const CoverageRow& row : rows) {
    if (!row.guaranteed) continue;
    EXPECT_EQ(row.covered, row.possible) << row.name << ": " << first_of(row.missing);
  }
  EXPECT_EQ(row_named(rows, "profile, length modulo 64")->possible, 640);
  EXPECT_EQ(row_named(rows, "profile, optional tensors")->possible, 10);
  EXPECT_EQ(row_named(rows, "tensor, layout")->possible, 2);
}

INSTANTIATE_TEST_SUITE_P(Variants, Coverage,
                         testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                         Variant::instance_norm, Variant::rms_norm),
                         [](const auto& info) { return std::string(row_of(info.param).name); });

}  // namespace
}  // namespace normgate
