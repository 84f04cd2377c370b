// The forward properties judge a kernel that is perfect (the definition, rounded once) as right in every small problem
// of their plans, and kernels with one mistake as wrong in at least one. No kernel runs here: outcomes are made from
// the definition, so what is examined is the properties' own arithmetic. What they rest on is examined as well: that
// rows of the table coincide bit for bit, and what the plans promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/statistics.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::int64_t most_elements = 300;
constexpr std::size_t most_problems = 16;

std::uint64_t bit(Role role) { return std::uint64_t{1} << index_of(role); }

runner::KernelInfo kernel_of(Variant variant) {
  runner::KernelInfo kernel;
  kernel.name = "test/perfect";
  kernel.variant = variant;
  kernel.phases = {Phase::forward_training, Phase::forward_inference};
  for (const Phase phase : kernel.phases)
    kernel.roles[static_cast<std::size_t>(phase)].supported = bit(Role::gamma) | bit(Role::beta) | bit(Role::mean) |
                                                              bit(Role::stat) | bit(Role::running_mean) |
                                                              bit(Role::running_var) | bit(Role::running_weight);
  kernel.conventions = {Convention{}};
  const auto add = [&](auto&& change) {
    Convention convention;
    change(convention);
    kernel.conventions.push_back(convention);
  };
  add([](Convention& c) { c.gamma = GammaOffset::plus_one; });
  add([](Convention& c) { c.eps = EpsPlacement::outside; });
  add([](Convention& c) { c.eps = EpsPlacement::floor; });
  add([](Convention& c) { c.normalizing = NormalizingDivisor::n_minus_1; });
  add([](Convention& c) { c.saved = SavedStatistic::variance; });
  add([](Convention& c) { c.momentum = MomentumForm::accumulated_weight; });
  kernel.claim.scale_covariant = kernel.claim.constant_exact = true;
  kernel.channels_last = kernel.padded = kernel.strided = kernel.mixed = kernel.in_place = true;
  return kernel;
}

// A mistake changes outputs; it may look at the call.
using Mistake = std::function<void(const runner::Call&, Inputs& outputs)>;

class MadeBench final : public Bench {
 public:
  MadeBench(const runner::KernelInfo& kernel, Mistake mistake) : kernel_(kernel), mistake_(std::move(mistake)) {}
  [[nodiscard]] std::vector<runner::Outcome> run(std::span<const runner::Call> calls) override {
    std::vector<runner::Outcome> result;
    for (const runner::Call& call : calls) {
      const Truth truth = definition_forward(call.problem, call.inputs);
      runner::Outcome outcome;
      for (const Role role : output_roles)
        for (const Exact& value : truth.out[role]) outcome.outputs[role].push_back(static_cast<float>(value.hi));
      if (mistake_) mistake_(call, outcome.outputs);
      result.push_back(std::move(outcome));
    }
    return result;
  }
  [[nodiscard]] const runner::KernelInfo& kernel() const override { return kernel_; }

 private:
  const runner::KernelInfo& kernel_;
  Mistake mistake_;
};

struct Tried {
  std::int64_t judged = 0;
  std::int64_t elements = 0;
  std::optional<Violation> violation;
  std::string problem;
};

Tried try_property(const Property& property, const Subject& subject, const Mistake& mistake,
                   std::size_t problems = most_problems) {
  Tried result;
  MadeBench bench(subject.kernel, mistake);
  std::vector<Problem> small;
  for (const Problem& problem : property.plan(subject, Effort::quick, 1))
    if (element_count(problem.shape) <= most_elements) small.push_back(problem);
  const std::size_t step = std::max<std::size_t>(1, small.size() / problems);
  for (std::size_t i = 0; i < small.size(); i += step) {
    const Case c(small[i], property.wanted);
    const Judgement judgement = property.judge(c, subject, bench.run(property.calls(c, subject)), bench);
    result.elements += judgement.elements;
    if (!judgement.discarded) ++result.judged;
    if (judgement.violation && !result.violation) {
      result.violation = judgement.violation;
      result.problem = print(small[i]);
    }
  }
  return result;
}

class PerfectForwardKernels : public testing::TestWithParam<Variant> {};

TEST_P(PerfectForwardKernels, AreJudgedAsRight) {
  const auto kernel = kernel_of(GetParam());
  for (const Phase phase : kernel.phases)
    for (const Convention& convention : kernel.conventions) {
      const Subject subject{row_of(GetParam()), phase, kernel, convention};
      for (const Property* property :
           {&epsilon, &saved_statistics, &scaling, &shift_invariance, &sign_symmetry, &affine, &coincidence, &range}) {
        if (!property->applies(subject)) continue;
        const Tried tried = try_property(*property, subject, {});
        EXPECT_FALSE(tried.violation.has_value())
            << property->name << " " << tried.problem << "\n at " << tried.violation->at << " got "
            << tried.violation->got << " want " << tried.violation->want << " " << tried.violation->error;
        EXPECT_GT(tried.judged, 0) << property->name << " " << name_of(phase) << " " << print(convention);
        EXPECT_GT(tried.elements, 0) << property->name << " " << name_of(phase) << " " << print(convention);
      }
    }
}

// Data without a centre leave bits free below a float32's 24, so that groups of any length can be shifted exactly.
TEST(ShiftInvariance, TriesOrdinaryDataOfEveryLength) {
  const auto kernel = kernel_of(Variant::layer_norm);
  const Subject subject{row_of(Variant::layer_norm), Phase::forward_training, kernel, kernel.conventions.front()};
  MadeBench bench(kernel, {});
  std::int64_t tried = 0;
  for (const Problem& problem : shift_invariance.plan(subject, Effort::quick, 1)) {
    if (problem.profile != Profile::conditioned || group_size(problem) < 16 || group_size(problem) > 300) continue;
    const Case c(problem);
    const Judgement judgement =
        shift_invariance.judge(c, subject, bench.run(shift_invariance.calls(c, subject)), bench);
    EXPECT_FALSE(judgement.discarded) << print(problem);
    ++tried;
  }
  EXPECT_GT(tried, 3);
}

std::string name_of_row(const testing::TestParamInfo<Variant>& info) { return std::string(row_of(info.param).name); }

INSTANTIATE_TEST_SUITE_P(Rows, PerfectForwardKernels,
                         testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                         Variant::instance_norm, Variant::rms_norm),
                         name_of_row);

float largest(const std::vector<float>& values) {
  float result = 0;
  for (const float value : values) result = std::max(result, std::fabs(value));
  return result;
}

struct WrongForwardKernel {
  std::string_view name;
  const Property* property;
  Phase phase;
  Mistake mistake;
};

std::vector<WrongForwardKernel> wrong_kernels() {
  const auto on_each = [](Role role, auto change) {
    return [role, change](const runner::Call& call, Inputs& outputs) {
      for (std::size_t i = 0; i < outputs[role].size(); ++i) outputs[role][i] = change(call, i, outputs[role][i]);
    };
  };
  const Mistake small_means = on_each(Role::mean, [](const runner::Call&, std::size_t, float mean) {
    return std::fabs(mean) > 0x1p15F ? std::nextafter(mean, 0.0F) : mean;
  });
  const Mistake large_inputs = on_each(Role::y, [](const runner::Call& call, std::size_t, float y) {
    return largest(call.inputs[Role::x]) > 0x1p10F ? 1.01F * y : y;
  });
  const Mistake upwards = on_each(Role::y, [](const runner::Call&, std::size_t, float y) {
    return std::nextafter(y, std::numeric_limits<float>::infinity());
  });
  const Mistake modulus = on_each(
      Role::y, [](const runner::Call&, std::size_t, float y) { return std::fabs(y) < 0x1p-10F ? std::fabs(y) : y; });
  const Mistake no_beta = on_each(Role::y, [](const runner::Call& call, std::size_t, float y) {
    return call.problem.gamma && largest(call.inputs[Role::gamma]) == 0 ? 0 : y;
  });
  const Mistake half_range = on_each(Role::y, [](const runner::Call& call, std::size_t, float y) {
    return largest(call.inputs[Role::gamma]) > 65504 ? y / 2 : y;
  });
  // The identity of a gamma that is there is not that of one that is absent.
  const Mistake ones = on_each(Role::y, [](const runner::Call& call, std::size_t, float y) {
    const auto& gamma = call.inputs[Role::gamma];
    return call.problem.gamma && std::all_of(gamma.begin(), gamma.end(), [](float w) { return w == 1; }) ? y + 1 : y;
  });
  const Mistake thousandth = on_each(Role::y, [](const runner::Call&, std::size_t, float y) { return 1.001F * y; });
  const Mistake flushed =
      on_each(Role::y, [](const runner::Call&, std::size_t, float y) { return std::fabs(y) < 0x1p-126F ? 0 : y; });
  const Mistake squares = on_each(Role::y, [](const runner::Call& call, std::size_t, float y) {
    return largest(call.inputs[Role::x]) > 0x1p64F ? std::numeric_limits<float>::quiet_NaN() : y;
  });
  const Mistake eps_is_the_default = [](const runner::Call& call, Inputs& outputs) {
    Problem problem = call.problem;
    problem.eps = Problem{}.eps;
    const Truth truth = definition_forward(problem, call.inputs);
    for (std::size_t i = 0; i < outputs[Role::y].size(); ++i)
      outputs[Role::y][i] = static_cast<float>(truth.out[Role::y][i].hi);
  };
  const Mistake other_statistic = [](const runner::Call& call, Inputs& outputs) {
    Problem problem = call.problem;
    problem.convention.saved = SavedStatistic::variance;
    const Truth truth = definition_forward(problem, call.inputs);
    for (const Role role : {Role::y, Role::stat})
      for (std::size_t i = 0; i < outputs[role].size(); ++i)
        outputs[role][i] = static_cast<float>(truth.out[role][i].hi);
  };
  constexpr Phase training = Phase::forward_training;
  constexpr Phase inference = Phase::forward_inference;
  return {{"large means one ulp off", &shift_invariance, training, small_means},
          {"a hundredth too large beyond 1024", &shift_invariance, training, large_inputs},
          {"a hundredth too large beyond 1024", &shift_invariance, inference, large_inputs},
          {"rounds upwards", &sign_symmetry, training, upwards},
          {"rounds upwards", &sign_symmetry, inference, upwards},
          {"small outputs without sign", &sign_symmetry, training, modulus},
          {"zero where every gamma is", &affine, training, no_beta},
          {"gamma in the range of float16", &affine, inference, half_range},
          {"gamma of 1 adds 1", &affine, training, ones},
          {"a thousandth too large", &coincidence, training, thousandth},
          {"a thousandth too large", &coincidence, inference, thousandth},
          {"subnormals flushed", &range, training, flushed},
          {"squares beyond the range", &range, training, squares},
          {"eps 1e-5 whatever is asked", &epsilon, training, eps_is_the_default},
          {"eps 1e-5 whatever is asked", &epsilon, inference, eps_is_the_default},
          {"the variance for its root", &saved_statistics, training, other_statistic},
          {"the variance for its root", &saved_statistics, inference, other_statistic}};
}

TEST(WrongForwardKernels, AreRejectedByTheProperty) {
  for (const Variant variant : {Variant::batch_norm, Variant::instance_norm}) {
    const auto kernel = kernel_of(variant);
    for (const WrongForwardKernel& wrong : wrong_kernels()) {
      const Subject subject{row_of(variant), wrong.phase, kernel, kernel.conventions.front()};
      ASSERT_TRUE(wrong.property->applies(subject)) << wrong.name;
      EXPECT_TRUE(try_property(*wrong.property, subject, wrong.mistake, 60).violation.has_value())
          << wrong.name << " by " << wrong.property->name << " in " << name_of(wrong.phase);
    }
  }
}

// A kernel whose runs may differ promises no bits: the same rounding upwards is within every bound.
TEST(WrongForwardKernels, AreNotAskedForBitsThatTheyDoNotPromise) {
  auto kernel = kernel_of(Variant::layer_norm);
  kernel.claim.deterministic = kernel.claim.constant_exact = false;
  const Subject subject{row_of(Variant::layer_norm), Phase::forward_training, kernel, kernel.conventions.front()};
  const Mistake upwards = [](const runner::Call&, Inputs& outputs) {
    for (float& y : outputs[Role::y])
      if (y != 0) y = std::nextafter(y, std::numeric_limits<float>::infinity());
  };
  std::size_t judged = 0;
  MadeBench bench(kernel, upwards);
  for (const Problem& problem : sign_symmetry.plan(subject, Effort::quick, 1)) {
    // An ulp and a half, at most 3 u |y|: two products have 2 u, a sum of 16 squares and the root have more.
    if (group_size(problem) < 16 || element_count(problem.shape) > most_elements || problem.beta || !problem.gamma ||
        problem.profile != Profile::conditioned)
      continue;
    const Case c(problem);
    const Judgement judgement = sign_symmetry.judge(c, subject, bench.run(sign_symmetry.calls(c, subject)), bench);
    EXPECT_FALSE(judgement.violation.has_value()) << print(problem);
    ++judged;
  }
  EXPECT_GT(judged, 0U);
}

void expect_same(const Truth& a, const Truth& b, Role role, const std::string& line) {
  ASSERT_EQ(a.out[role].size(), b.out[role].size()) << line;
  for (std::size_t i = 0; i < a.out[role].size(); ++i) {
    EXPECT_EQ(a.out[role][i].hi, b.out[role][i].hi) << line << " " << name_of(role) << " " << i;
    EXPECT_EQ(a.out[role][i].lo, b.out[role][i].lo) << line << " " << name_of(role) << " " << i;
  }
}

// Every two rows with the same centred bit, on shapes that are 1 where their reduced or affine sets differ.
TEST(Coincidence, ReferencesOfRelativesAgreeBitForBit) {
  std::int64_t compared = 0;
  for (const VariantRow& a : variant_table())
    for (const VariantRow& b : variant_table()) {
      if (a.variant >= b.variant || a.centred != b.centred) continue;
      for (const Shape& extents : {Shape{3, 4, 5, 37}, Shape{2, 1, 64, 3}, Shape{9, 2, 7, 260}, Shape{5, 3, 1100, 1}})
        for (const Profile profile : {Profile::conditioned, Profile::outlier_channels, Profile::exact_sum})
          for (const EpsPlacement eps : {EpsPlacement::inside, EpsPlacement::outside, EpsPlacement::floor}) {
            Problem problem;
            problem.variant = a.variant;
            problem.shape = extents;
            for (std::size_t axis = 0; axis < axis_count; ++axis)
              if (a.reduced.has(axis) != b.reduced.has(axis) || a.affine.has(axis) != b.affine.has(axis))
                problem.shape[axis] = 1;
            problem.profile = profile;
            problem.kappa = 30;
            problem.saved = true;
            problem.convention.eps = eps;
            problem.key = 77 + static_cast<std::uint64_t>(compared);
            ASSERT_EQ(check(problem), "");
            const Inputs inputs = make_inputs(problem);
            Problem other = problem;
            other.variant = b.variant;
            const Truth one = forward_truth(problem, inputs);
            const Truth two = forward_truth(other, inputs);
            for (const Role role : {Role::y, Role::mean, Role::stat})
              expect_same(one, two, role, print(problem) + " as " + std::string(b.name));
            ++compared;
          }
    }
  EXPECT_EQ(compared, 6 * 36);
}

// From running statistics a sample at a time is as good as all at once.
TEST(Coincidence, RowsAgreeEverywhereWhereRunningStatisticsAreGiven) {
  Problem problem;
  problem.phase = Phase::forward_inference;
  problem.variant = Variant::batch_norm;
  problem.given = Given::running;
  problem.shape = {3, 2, 5, 19};
  problem.kappa = 10;
  problem.key = 5;
  ASSERT_EQ(check(problem), "");
  const Inputs inputs = make_inputs(problem);
  Problem other = problem;
  other.variant = Variant::instance_norm;
  expect_same(forward_truth(problem, inputs), forward_truth(other, inputs), Role::y, print(problem));
}

class ForwardPlans : public testing::TestWithParam<Variant> {};

TEST_P(ForwardPlans, EpsilonMeetsManyOrdersNearAndFarFromTheVariance) {
  const auto kernel = kernel_of(GetParam());
  for (const Phase phase : kernel.phases) {
    const Subject subject{row_of(GetParam()), phase, kernel, kernel.conventions.front()};
    std::set<int> orders, ratios;
    std::set<Given> given;
    for (const Problem& problem : epsilon.plan(subject, Effort::quick, 1)) {
      given.insert(problem.given);
      if (problem.eps == 0) continue;
      orders.insert(std::ilogb(problem.eps) / 10);
      if (problem.profile == Profile::conditioned) ratios.insert(std::ilogb(problem.eps) - 2 * problem.scale);
    }
    EXPECT_GE(orders.size(), 18U);
    for (const int ratio : {0, -4, 4, -20, 20}) EXPECT_TRUE(ratios.contains(ratio)) << ratio;
    EXPECT_EQ(given.size(), phase == Phase::forward_training || row_of(GetParam()).running.empty() ? 1U : 2U);
  }
}

TEST_P(ForwardPlans, SavedStatisticsAreWrittenInTrainingAndReadInInference) {
  const auto kernel = kernel_of(GetParam());
  for (const Convention& convention : kernel.conventions)
    for (const Phase phase : kernel.phases) {
      const Subject subject{row_of(GetParam()), phase, kernel, convention};
      ASSERT_TRUE(saved_statistics.applies(subject));
      std::set<double> eps;
      std::set<std::int32_t> scales;
      std::size_t handed_over = 0;
      const auto plan = saved_statistics.plan(subject, Effort::quick, 1);
      for (const Problem& problem : plan) {
        eps.insert(problem.eps);
        scales.insert(problem.scale);
        handed_over += phase == Phase::forward_training ? problem.saved : problem.given == Given::saved;
      }
      EXPECT_GT(2 * handed_over, plan.size()) << name_of(phase);
      EXPECT_GE(scales.size(), 5U) << name_of(phase);
      EXPECT_GE(eps.size(), 4U) << name_of(phase);
    }
}

// A factor of 4 on both sides of the limit.
TEST_P(ForwardPlans, RangeIsFarInsideOrOutsideTheClaim) {
  const auto kernel = kernel_of(GetParam());
  const Subject subject{row_of(GetParam()), Phase::forward_training, kernel, kernel.conventions.front()};
  std::size_t inside = 0, outside = 0, large = 0, subnormal = 0, small_outputs = 0;
  for (const Problem& problem : range.plan(subject, Effort::quick, 1)) {
    const Case c(problem);
    const Groups groups(problem.shape, subject.row);
    for (std::int64_t q = 0; q < groups.count(); ++q) {
      const auto group = bounds::gather(groups, q, c.inputs()[Role::x], c.truth().groups[static_cast<std::size_t>(q)]);
      const bool fits = group.modulus <= 0x1p125 && group.deviations <= 0x1p125;
      const bool exceeds = group.modulus >= 0x1p129 || group.deviations >= 0x1p129;
      EXPECT_TRUE(fits || exceeds) << print(problem) << " group " << q;
      ++(fits ? inside : outside);
      if (fits && (group.deviations > 0x1p112 || group.modulus > 0x1p120)) ++large;
      if (group.largest > 0 && group.largest < 0x1p-126) ++subnormal;
    }
    for (const Exact& y : c.truth().out[Role::y])
      if (y.hi != 0 && std::fabs(y.hi) < 0x1p-126) ++small_outputs;
  }
  EXPECT_GT(inside, 2 * outside);
  EXPECT_GT(outside, 4U);
  EXPECT_GT(large, 4U);
  EXPECT_GT(subnormal, 4U);
  EXPECT_GT(small_outputs, 100U);
}

// Relatives of every kind, with several of all that may be more than one.
TEST_P(ForwardPlans, CoincidenceMeetsEveryRelative) {
  const VariantRow& row = row_of(GetParam());
  const auto kernel = kernel_of(GetParam());
  const Subject subject{row, Phase::forward_training, kernel, kernel.conventions.front()};
  ASSERT_EQ(coincidence.applies(subject), row.centred);
  if (!row.centred) return;
  std::set<Variant> met;
  for (const Problem& problem : coincidence.plan(subject, Effort::quick, 1)) {
    bool any = false;
    for (const VariantRow& other : variant_table()) {
      bool same = other.variant != row.variant && other.centred == row.centred;
      for (std::size_t axis = 0; axis < axis_count; ++axis)
        same = same && (row.reduced.has(axis) == other.reduced.has(axis) || problem.shape[axis] == 1);
      if (same) met.insert(other.variant);
      any = any || same;
    }
    EXPECT_TRUE(any) << print(problem);
  }
  EXPECT_EQ(met.size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(Rows, ForwardPlans,
                         testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                         Variant::instance_norm, Variant::rms_norm),
                         name_of_row);

}  // namespace
}  // namespace normgate
