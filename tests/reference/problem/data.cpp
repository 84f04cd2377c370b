// The data profiles: Philox against its known answers, what each profile promises, and what an element may depend on.
#include "reference/problem/data.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/reference/problem/random_problem.hpp"

namespace normgate {
namespace {

Problem parsed(const std::string& line) {
  ProblemOrError result = parse_problem(line);
  EXPECT_TRUE(result.problem) << result.error;
  EXPECT_EQ(result.problem ? check(*result.problem) : "", "") << line;
  return result.problem.value_or(Problem{});
}

// The elements of x by group, in row-major order of the reduced axes.
std::vector<std::vector<float>> groups_of(const Problem& problem, const std::vector<float>& x) {
  std::vector<std::vector<float>> groups(static_cast<std::size_t>(group_count(problem)));
  std::size_t i = 0;
  Shape at{};
  const Shape& shape = problem.shape;
  for (at[0] = 0; at[0] < shape[0]; ++at[0])
    for (at[1] = 0; at[1] < shape[1]; ++at[1])
      for (at[2] = 0; at[2] < shape[2]; ++at[2])
        for (at[3] = 0; at[3] < shape[3]; ++at[3])
          groups[static_cast<std::size_t>(group_index(problem, at))].push_back(x[i++]);
  return groups;
}

// The data of one role.
std::vector<float> drawn(const Problem& problem, Role role) { return make_inputs(problem)[role]; }
std::vector<float> drawn(const std::string& line, Role role) { return drawn(parsed(line), role); }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  return true;
}

// Random123's kat_vectors for philox4x32-10.
TEST(Data, PhiloxKnownAnswers) {
  struct Known {
    std::uint64_t key, stream, index;
    std::array<std::uint32_t, 4> words;
  };
  const std::uint64_t ones = ~std::uint64_t{0};
  const Known known[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {ones, ones, ones, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Known& each : known) {
    const Words words = random_words(each.key, each.stream, each.index);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(words.w[i], each.words[i]);
  }
}

// Recorded bits: a replay line of today must mean the same data tomorrow and on every machine.
TEST(Data, RecordedElements) {
  const Inputs inputs = make_inputs(parsed("forward_training layer_norm n=2 k=3 kappa=10 key=0x1f2e"));
  std::string text;
  for (const Role role : {Role::x, Role::gamma, Role::beta}) {
    for (const float value : inputs[role]) text += hexfloat(static_cast<double>(value)) + " ";
    text += "| ";
  }
  EXPECT_EQ(text,
            "-0x1.2af2a4p+3 -0x1.c25b04p+3 -0x1.7efa64p+3 -0x1.5b76e8p+3 -0x1.5e2468p+3 -0x1.468368p+3 | "
            "-0x1.dbb5b4p+1 0x1.090faap+1 0x1.9fdcb6p+1 | -0x1.7ce9dcp+2 0x1.20e83ap+1 -0x1.14cf2p+1 | ");
}

TEST(Data, EveryReadRoleIsFilledAndNoOther) {
  for (const char* line :
       {"forward_training layer_norm n=2 g=3 k=4 s=5", "forward_training batch_norm n=2 g=3 k=4 s=5 running=1 saved=1",
        "forward_training batch_norm n=0 g=3 k=4 s=5 running=1", "forward_training rms_norm n=2 k=0 gamma=0",
        "forward_inference batch_norm n=2 k=4 given=running convention=caffe",
        "forward_inference instance_norm n=2 k=4 s=3 given=running",
        "forward_inference group_norm n=2 g=2 k=4 s=3 given=saved beta=0",
        "backward_training layer_norm n=3 k=5 saved=1", "backward_training layer_norm n=3 k=0 saved=1",
        "backward_training batch_norm n=0 g=2 k=5 saved=1 from_output=1", "backward_training rms_norm n=2 k=7 beta=0",
        "backward_training group_norm n=0 saved=1 cotangent=mixed",
        "backward_training instance_norm n=2 k=2 s=1 saved=1",
        "backward_training layer_norm n=3 k=5 convention=pytorch,gradients:accumulate cotangent=normalized",
        "backward_inference batch_norm n=2 k=4 given=running convention=caffe cotangent=normalized",
        "backward_inference rms_norm n=2 k=4 given=saved cotangent=unit"})
    for (int profile = 0; profile < 10; ++profile) {
      Problem problem = parsed(line);
      problem.profile = static_cast<Profile>(profile);
      const Inputs inputs = make_inputs(problem);
      for (std::size_t i = 0; i < role_count; ++i) {
        const Role role = static_cast<Role>(i);
        const std::int64_t count =
            use_of(problem, role).read
                ? element_count(restricted(problem.shape, axes_of(role, row_of(problem.variant))))
                : 0;
        EXPECT_EQ(static_cast<std::int64_t>(inputs[role].size()), count)
            << line << " " << name_of(problem.profile) << " " << name_of(role);
      }
    }
}

RC_GTEST_PROP(Data, RandomProblemsHaveFiniteDataButWhereTheyShouldNot, ()) {
  const Problem problem = testing::random_problem();
  const Inputs inputs = make_inputs(problem);
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    if (!problem.values[role].empty()) {
      RC_ASSERT(same_bits(inputs[role], problem.values[role]));
      continue;
    }
    // What follows from a group's own x is as finite as the values of x, its variance and its gradients.
    if (problem.phase == Phase::backward_training && (role == Role::mean || role == Role::stat || role == Role::y))
      continue;
    // Nor is a part of no elements anything.
    if (role == Role::part_mean || role == Role::part_stat) continue;
    const bool special = problem.profile == Profile::special;
    const bool may_be_special = special && role != Role::running_weight && role != Role::dgamma && role != Role::dbeta;
    for (const float value : inputs[role]) {
      if (!may_be_special) RC_ASSERT(std::isfinite(value));
      if (!special && (role == Role::running_var || role == Role::stat)) RC_ASSERT(std::isnormal(value) && value > 0);
      if (role == Role::running_weight) RC_ASSERT(value >= 1 && value <= 20);
    }
  }
}

RC_GTEST_PROP(Data, DependOnKeyNotOnPlacement, ()) {
  Problem problem = testing::random_problem();
  problem.values = {};
  const Inputs inputs = make_inputs(problem);
  Problem placed = problem;
  for (std::size_t i = 0; i < role_count; ++i) placed.layout[static_cast<Role>(i)] = testing::random_layout();
  placed.in_place = !problem.in_place;
  placed.fence = Fence::left;
  placed.misalign = 17;
  placed.threads = 5;
  if (!is_backward(problem.phase)) placed.eps = 0.5;  // statistics and their cotangents contain it
  placed.momentum = 0.75;
  placed.step = 9;
  const Inputs same = make_inputs(placed);
  for (std::size_t i = 0; i < role_count; ++i)
    RC_ASSERT(same_bits(inputs[static_cast<Role>(i)], same[static_cast<Role>(i)]));
}

TEST(Data, AnotherKeyGivesOtherData) {
  for (const char* profile : {"conditioned", "exact", "exact_sum", "needle", "special", "near_constant", "constant",
                              "outlier_channels", "parameter_rounding"}) {
    Problem problem = parsed("forward_training layer_norm n=4 k=64 profile=" + std::string(profile));
    const Inputs a = make_inputs(problem);
    problem.key = 1;
    const Inputs b = make_inputs(problem);
    EXPECT_FALSE(same_bits(a[Role::x], b[Role::x])) << profile;
    EXPECT_FALSE(same_bits(a[Role::gamma], b[Role::gamma])) << profile;
    EXPECT_FALSE(same_bits(a[Role::beta], b[Role::beta])) << profile;
  }
}

// What data.hpp promises of these profiles: more samples leave the first ones as they were.
TEST(Data, AnElementStaysWhenSamplesAreAdded) {
  for (const char* profile : {"conditioned", "near_constant", "constant", "outlier_channels", "parameter_rounding"})
    for (const VariantRow& row : variant_table()) {
      const std::string start = "forward_training " + std::string(row.name) + " g=2 k=3 s=4 key=5 profile=" + profile;
      const std::vector<float> few = make_inputs(parsed(start + " n=2"))[Role::x];
      std::vector<float> many = make_inputs(parsed(start + " n=7"))[Role::x];
      many.resize(few.size());
      EXPECT_TRUE(same_bits(few, many)) << start;
    }
}

TEST(Data, OneRolesPresenceDoesNotMoveAnother) {
  const Inputs both = make_inputs(parsed("forward_training batch_norm n=4 k=8 running=1 key=3"));
  const Inputs none = make_inputs(parsed("forward_training batch_norm n=4 k=8 gamma=0 key=3"));
  EXPECT_TRUE(same_bits(both[Role::x], none[Role::x]));
  EXPECT_TRUE(same_bits(both[Role::beta], none[Role::beta]));
}

TEST(Data, ConditionedHasTheDialsMeanAndScale) {
  for (const double kappa : {0.0, 1.0, 1000.0})
    for (const int scale : {-60, 0, 7}) {
      Problem problem = parsed("forward_training layer_norm n=8 k=4096");
      problem.kappa = kappa;
      problem.scale = scale;
      for (const std::vector<float>& group : groups_of(problem, make_inputs(problem)[Role::x])) {
        double sum = 0;
        double squares = 0;
        for (const float value : group) sum += static_cast<double>(value);
        const double mean = sum / 4096;
        for (const float value : group)
          squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
        const double unit = std::ldexp(1.0, scale);
        // Standard errors are 1/64 and 1/45: six of them.
        EXPECT_GT(std::abs(mean), (kappa - 0.1) * unit);
        EXPECT_LT(std::abs(mean), (1.125 * kappa + 0.1) * unit);
        EXPECT_NEAR(squares / 4096 / (unit * unit), 1, 0.14);
      }
    }
}

TEST(Data, ScaleIsExact) {
  for (const char* profile : {"conditioned", "needle", "near_constant", "outlier_channels"}) {
    const std::string start = "forward_training batch_norm n=5 k=4 s=3 key=9 kappa=3 profile=" + std::string(profile);
    const std::vector<float> one = make_inputs(parsed(start))[Role::x];
    const std::vector<float> scaled = make_inputs(parsed(start + " scale=13"))[Role::x];
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(scaled[i], one[i] * 8192) << profile;
  }
}

TEST(Data, OutlierChannelsHaveOneAtLeast) {
  for (std::uint64_t key = 0; key < 20; ++key) {
    Problem problem = parsed("forward_training batch_norm n=4 g=2 k=40 s=2 profile=outlier_channels kappa=10");
    problem.key = key;
    const auto groups = groups_of(problem, make_inputs(problem)[Role::x]);
    std::size_t large = 0;
    for (const auto& group : groups) large += std::abs(group[0]) > 200 ? 1 : 0;
    EXPECT_GE(large, 1U);
    EXPECT_LE(large, 20U);
  }
}

TEST(Data, ConstantGroupsAreConstantAndDiffer) {
  const Problem problem = parsed("forward_training layer_norm n=16 k=9 profile=constant");
  std::set<float> centres;
  for (const auto& group : groups_of(problem, make_inputs(problem)[Role::x])) {
    for (const float value : group) EXPECT_EQ(value, group[0]);
    EXPECT_GE(std::abs(group[0]), 1234.0F);
    centres.insert(group[0]);
  }
  EXPECT_EQ(centres.size(), 16U);
}

TEST(Data, NearlyConstantGroupsSpanThreeUlps) {
  for (const char* kappa : {"0", "1", "12345"}) {
    const Problem problem =
        parsed("forward_training layer_norm n=16 k=64 profile=near_constant kappa=" + std::string(kappa));
    for (const auto& group : groups_of(problem, make_inputs(problem)[Role::x])) {
      std::uint32_t low = ~0U;
      std::uint32_t high = 0;
      for (const float value : group) {
        low = std::min(low, std::bit_cast<std::uint32_t>(value));
        high = std::max(high, std::bit_cast<std::uint32_t>(value));
      }
      EXPECT_EQ(high - low, 3U);
    }
  }
}

TEST(Data, EachNeedleGroupHasOneNeedleAndTheEdgesAreMet) {
  std::map<std::size_t, int> positions;
  for (std::uint64_t key = 0; key < 40; ++key) {
    Problem problem = parsed("forward_training layer_norm n=16 k=67 profile=needle");
    problem.key = key;
    for (const auto& group : groups_of(problem, make_inputs(problem)[Role::x])) {
      std::size_t needles = 0;
      for (std::size_t i = 0; i < group.size(); ++i)
        if (std::abs(group[i]) >= 8) {
          ++needles;
          ++positions[i];
        }
      EXPECT_EQ(needles, 1U);
    }
  }
  for (const std::size_t edge : {0U, 66U, 65U, 15U, 16U, 17U, 31U, 32U, 33U, 63U, 64U})
    EXPECT_GT(positions[edge], 0) << edge;
}

TEST(Data, SpecialGroupsAndCleanOnes) {
  int with_nan_parameters = 0;
  std::set<int> classes;
  for (std::uint64_t key = 0; key < 200; ++key)
    for (const char* shape : {"n=1", "n=2", "n=9"}) {
      Problem problem = parsed("forward_training layer_norm k=33 profile=special " + std::string(shape));
      problem.key = key;
      const Inputs inputs = make_inputs(problem);
      std::size_t special = 0;
      const auto groups = groups_of(problem, inputs[Role::x]);
      for (const auto& group : groups) {
        std::size_t here = 0;
        for (const float value : group) {
          here += std::isfinite(value) ? 0 : 1;
          classes.insert(std::fpclassify(value) * 2 + (std::signbit(value) && !std::isnan(value) ? 1 : 0));
        }
        EXPECT_LE(here, 3U);
        special += here > 0 ? 1 : 0;
      }
      EXPECT_GE(special, 1U);
      EXPECT_TRUE(groups.size() == 1 || special < groups.size());
      int nans = 0;
      for (const Role role : {Role::gamma, Role::beta})
        for (const float value : inputs[role]) nans += std::isnan(value) ? 1 : 0;
      EXPECT_LE(nans, 1);
      with_nan_parameters += nans;
    }
  EXPECT_GT(with_nan_parameters, 30);
  EXPECT_LT(with_nan_parameters, 150);
  EXPECT_EQ(classes.size(), 9U);  // NaN, and both signs of infinity, zero, subnormal and normal
}

RC_GTEST_PROP(Data, ExactGroupsHaveIntegerMeanAndVarianceLevelSquared, ()) {
  Problem problem;
  problem.variant = static_cast<Variant>(testing::between(1, 5));
  for (std::int64_t& extent : problem.shape) extent = testing::between<std::int64_t>(1, 7);
  problem.profile = Profile::exact;
  problem.level = 2 * testing::between(0, 15) + 1;
  problem.scale = testing::between(-60, 60);
  problem.key = *rc::gen::arbitrary<std::uint64_t>();
  const Inputs inputs = make_inputs(problem);
  for (const auto& group : groups_of(problem, inputs[Role::x])) {
    const auto m = static_cast<double>(group.size());
    double sum = 0;
    for (const float value : group) sum += static_cast<double>(value);
    const double mean = sum / m;
    RC_ASSERT(mean == std::round(mean) && std::abs(mean) <= 8);
    if (!row_of(problem.variant).centred) RC_ASSERT(mean == 0);
    double squares = 0;
    for (const float value : group)
      squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    const double pairs = 2 * std::floor(m / 2);
    RC_ASSERT(squares == pairs * problem.level * problem.level);
  }
  for (const Role role : {Role::gamma, Role::beta})
    for (const float value : inputs[role])
      RC_ASSERT(value == std::round(value) && std::abs(value) >= 2 && std::abs(value) <= 9);
}

TEST(Data, ExactPairsTakeBothOrders) {
  const Problem problem = parsed("forward_training rms_norm n=8 k=64 profile=exact");
  std::set<float> firsts;
  for (const auto& group : groups_of(problem, make_inputs(problem)[Role::x])) firsts.insert(group[0]);
  EXPECT_EQ(firsts.size(), 2U);
}

TEST(Data, ExactEpsMakesTheDenominatorAPowerOfTwo) {
  for (std::int32_t level = 1; level <= 31; level += 2) {
    const double square = static_cast<double>(level) * level;
    Convention convention;
    const std::optional<double> inside = exact_eps(convention, level);
    ASSERT_TRUE(inside);
    EXPECT_GT(*inside, 0);
    const double root = std::sqrt(square + *inside);
    EXPECT_EQ(root * root, square + *inside);
    EXPECT_EQ(std::exp2(std::round(std::log2(root))), root) << level;
    convention.eps = EpsPlacement::outside;
    const std::optional<double> outside = exact_eps(convention, level);
    ASSERT_TRUE(outside);
    EXPECT_GT(*outside, 0);
    EXPECT_EQ(std::exp2(std::round(std::log2(level + *outside))), level + *outside) << level;
    for (const double eps : {*inside, *outside}) EXPECT_EQ(static_cast<double>(static_cast<float>(eps)), eps);
    convention.eps = EpsPlacement::floor;
    const std::optional<double> floor = exact_eps(convention, level);
    EXPECT_EQ(floor.has_value(), level == 1);
    EXPECT_EQ(floor.value_or(0.25), 0.25);
    convention.normalizing = NormalizingDivisor::n_minus_1;
    EXPECT_FALSE(exact_eps(convention, level));
  }
  EXPECT_EQ(exact_eps({}, 1), 3);
  EXPECT_EQ(exact_eps({}, 3), 7);
}

void expect_exact_sums(const Problem& problem) {
  const Inputs inputs = make_inputs(problem);
  for (const auto& group : groups_of(problem, inputs[Role::x])) {
    double sum = 0;
    double magnitudes = 0;
    for (const float value : group) {
      ASSERT_EQ(value, std::round(value));
      sum += static_cast<double>(value);
      magnitudes += std::abs(static_cast<double>(value));
    }
    const double mean = sum / static_cast<double>(group.size());
    ASSERT_EQ(mean, std::round(mean));
    double squares = 0;
    for (const float value : group)
      squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    ASSERT_LT(magnitudes, 16777216.0) << print(problem);
    ASSERT_LT(squares, 16777216.0) << print(problem);
    ASSERT_TRUE(group.size() == 1 || squares > 0) << print(problem);
    ASSERT_TRUE(row_of(problem.variant).centred || mean == 0) << print(problem);
  }
  for (const Role role : {Role::gamma, Role::beta})
    for (const float value : inputs[role]) {
      int exponent = 0;
      ASSERT_EQ(std::frexp(std::abs(value), &exponent), 0.5F);
    }
}

TEST(Data, ExactSumsStayBelowTwoToThe24) {
  for (const char* variant : {"layer_norm", "rms_norm"})
    for (const char* extent : {"1", "2", "3", "63", "768", "8191", "8193", "16384", "1048576"})
      for (const char* level : {"1", "7", "31"})
        expect_exact_sums(parsed("forward_training " + std::string(variant) + " n=2 profile=exact_sum k=" + extent +
                                 " level=" + level));
}

TEST(Data, ExactSumsOfVeryLongGroups) {
  expect_exact_sums(parsed("forward_training layer_norm k=16777219 gamma=0 beta=0 profile=exact_sum level=31"));
}

TEST(Data, GammaAndBetaAreFarFromOneAndZero) {
  const Inputs inputs = make_inputs(parsed("forward_training layer_norm k=1000"));
  std::size_t tiny = 0;
  std::set<float> distinct;
  for (const float value : inputs[Role::gamma]) {
    distinct.insert(value);
    if (std::abs(value) <= 0x1p-20F)
      ++tiny;
    else
      EXPECT_TRUE(std::abs(value) >= 1.25F && std::abs(value) <= 4.0F) << value;
  }
  EXPECT_GT(tiny, 30U);
  EXPECT_LT(tiny, 100U);
  EXPECT_GT(distinct.size(), 900U);
  for (const float value : inputs[Role::beta]) EXPECT_TRUE(std::abs(value) >= 0.5F && std::abs(value) <= 8.0F);
  const Inputs few = make_inputs(parsed("forward_training layer_norm k=8"));
  for (const float value : few[Role::gamma]) EXPECT_GE(std::abs(value), 1.25F);
}

TEST(Data, GivenStatisticsLieNearTheData) {
  for (const char* line : {"forward_inference batch_norm n=3 k=20 s=4 given=running kappa=1000",
                           "forward_inference instance_norm n=3 k=20 s=4 given=running kappa=1000 scale=5",
                           "forward_inference layer_norm n=20 k=30 given=saved kappa=1000",
                           "forward_inference group_norm n=3 g=4 k=5 s=6 given=saved kappa=1000 scale=-9"}) {
    const Problem problem = parsed(line);
    const Inputs inputs = make_inputs(problem);
    const Role role = problem.given == Given::running ? Role::running_mean : Role::mean;
    const AxisSet axes = axes_of(role, row_of(problem.variant));
    std::size_t i = 0;
    Shape at{};
    for (at[0] = 0; at[0] < problem.shape[0]; ++at[0])
      for (at[1] = 0; at[1] < problem.shape[1]; ++at[1])
        for (at[2] = 0; at[2] < problem.shape[2]; ++at[2])
          for (at[3] = 0; at[3] < problem.shape[3]; ++at[3]) {
            const float mean = inputs[role][static_cast<std::size_t>(dense_index(problem.shape, axes, at))];
            EXPECT_LT(std::abs(inputs[Role::x][i++] - mean), std::ldexp(8.0F, problem.scale)) << line;
          }
  }
}

TEST(Data, AccumulatedStateIsWeighed) {
  const Problem problem = parsed("forward_inference batch_norm n=3 k=20 given=running kappa=1000 convention=caffe");
  const Inputs inputs = make_inputs(problem);
  const float weight = inputs[Role::running_weight][0];
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_LT(std::abs(inputs[Role::running_mean][i] / weight - inputs[Role::x][i]), 8.0F);
}

TEST(Data, ExactInferenceHasExactStatistics) {
  for (const char* convention : {"pytorch", "caffe"}) {
    const Problem problem =
        parsed("forward_inference batch_norm n=8 k=5 given=running profile=exact level=3 convention=" +
               std::string(convention));
    const Inputs inputs = make_inputs(problem);
    const float weight = inputs[Role::running_weight].empty() ? 1.0F : inputs[Role::running_weight][0];
    for (std::size_t i = 0; i < inputs[Role::x].size(); ++i) {
      EXPECT_EQ(std::abs(inputs[Role::x][i] - inputs[Role::running_mean][i % 5] / weight), 3.0F);
      EXPECT_EQ(inputs[Role::running_var][i % 5] / weight, 9.0F);
    }
  }
}

// ---- what a backward phase is handed --------------------------------------------------------------------------------

// The definition of a group's statistics, on their own precision and their own walk.
struct Reference {
  long double mean = 0, variance = 0, rstd = 0;
};

Reference reference_of(const Problem& problem, const std::vector<float>& group) {
  const auto n = static_cast<long double>(group.size());
  Reference result;
  if (row_of(problem.variant).centred) {
    for (const float value : group) result.mean += static_cast<long double>(value);
    result.mean /= n;
  }
  for (const float value : group) {
    const long double d = static_cast<long double>(value) - result.mean;
    result.variance += d * d;
  }
  const bool less_one =
      row_of(problem.variant).centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1;
  result.variance /= less_one ? n - 1 : n;
  const auto eps = static_cast<long double>(problem.eps);
  if (problem.convention.eps == EpsPlacement::inside) result.rstd = 1 / std::sqrt(result.variance + eps);
  if (problem.convention.eps == EpsPlacement::outside) result.rstd = 1 / (std::sqrt(result.variance) + eps);
  if (problem.convention.eps == EpsPlacement::floor) result.rstd = 1 / std::sqrt(std::max(result.variance, eps));
  return result;
}

// Half a float ulp of `value`, and a little for the two computations.
long double half_ulp(long double value) {
  const float magnitude = std::abs(static_cast<float>(value));
  const float next = std::nextafter(magnitude, std::numeric_limits<float>::infinity());
  return static_cast<long double>(next - magnitude) * 0.5L * (1 + 0x1p-18L);
}

// The x that a backward problem is about, whether or not its kernel is handed it.
std::vector<float> x_of(Problem problem) {
  problem.saved = problem.from_output = false;
  problem.handed = Handed::nearest;
  return make_inputs(problem)[Role::x];
}

// Backward problems of every row and of all conventions that statistics depend on.
std::vector<Problem> handed_problems() {
  std::vector<Problem> result;
  for (const VariantRow& row : variant_table())
    for (const Profile profile : {Profile::conditioned, Profile::near_constant, Profile::needle, Profile::drift,
                                  Profile::outlier_channels, Profile::exact, Profile::exact_sum})
      for (int choice = 0; choice < 12; ++choice) {
        Problem problem;
        problem.phase = Phase::backward_training;
        problem.variant = row.variant;
        problem.shape = {3, 2, 5, 7};
        problem.profile = profile;
        problem.kappa = choice % 2 == 0 ? 1 : 1000;
        problem.eps = choice % 5 == 0 ? 0.25 : problem.eps;
        problem.saved = true;
        problem.convention.eps = static_cast<EpsPlacement>(choice % 3);
        problem.convention.normalizing = static_cast<NormalizingDivisor>(choice / 3 % 2);
        problem.convention.saved = static_cast<SavedStatistic>(choice / 6);
        problem.key = static_cast<std::uint64_t>(choice) + 7;
        result.push_back(problem);
      }
  return result;
}

TEST(Data, HandedStatisticsAreTheNearestFloats) {
  for (const Problem& problem : handed_problems()) {
    ASSERT_EQ(check(problem), "");
    const Inputs inputs = make_inputs(problem);
    const auto groups = groups_of(problem, inputs[Role::x]);
    ASSERT_EQ(inputs[Role::stat].size(), groups.size());
    for (std::size_t q = 0; q < groups.size(); ++q) {
      const Reference right = reference_of(problem, groups[q]);
      const long double stat = problem.convention.saved == SavedStatistic::rstd ? right.rstd : right.variance;
      ASSERT_LE(std::abs(static_cast<long double>(inputs[Role::stat][q]) - stat), half_ulp(stat)) << print(problem);
      if (!row_of(problem.variant).centred) continue;
      ASSERT_LE(std::abs(static_cast<long double>(inputs[Role::mean][q]) - right.mean),
                half_ulp(right.mean) + 0x1p-60L * std::abs(static_cast<long double>(groups[q][0])))
          << print(problem);
    }
  }
}

TEST(Data, ShiftedStatisticsAreSomePercentAway) {
  int above = 0;
  int below = 0;
  for (Problem problem : handed_problems()) {
    problem.handed = Handed::shifted;
    const Inputs inputs = make_inputs(problem);
    const auto groups = groups_of(problem, inputs[Role::x]);
    for (std::size_t q = 0; q < groups.size(); ++q) {
      const Reference right = reference_of(problem, groups[q]);
      const long double stat = problem.convention.saved == SavedStatistic::rstd ? right.rstd : right.variance;
      const long double moved = static_cast<long double>(inputs[Role::stat][q]) / stat - 1;
      ASSERT_GE(std::abs(moved), 0.0199L) << print(problem);
      ASSERT_LE(std::abs(moved), 0.1001L) << print(problem);
      (moved > 0 ? above : below) += 1;
      if (!row_of(problem.variant).centred) continue;
      const long double sigma = std::sqrt(right.variance);
      const long double distance = std::abs(static_cast<long double>(inputs[Role::mean][q]) - right.mean);
      ASSERT_GE(distance, 0.0199L * sigma - half_ulp(right.mean)) << print(problem);
      ASSERT_LE(distance, 0.1001L * sigma + half_ulp(right.mean)) << print(problem);
    }
  }
  EXPECT_GT(above, 1000);
  EXPECT_GT(below, 1000);
}

TEST(Data, HandedOutputIsTheForwardRoundedOnce) {
  for (Problem problem : handed_problems()) {
    problem.from_output = true;
    problem.gamma = problem.key % 4 != 0;
    problem.beta = problem.key % 3 != 0;
    problem.convention.gamma = static_cast<GammaOffset>(problem.key % 2);
    ASSERT_EQ(check(problem), "");
    const Inputs inputs = make_inputs(problem);
    EXPECT_TRUE(inputs[Role::x].empty());
    EXPECT_TRUE(inputs[Role::mean].empty());
    const std::vector<float> x = x_of(problem);
    const auto groups = groups_of(problem, x);
    std::vector<Reference> references;
    for (const auto& group : groups) references.push_back(reference_of(problem, group));
    const AxisSet affine = row_of(problem.variant).affine;
    std::size_t i = 0;
    Shape at{};
    for (at[0] = 0; at[0] < problem.shape[0]; ++at[0])
      for (at[1] = 0; at[1] < problem.shape[1]; ++at[1])
        for (at[2] = 0; at[2] < problem.shape[2]; ++at[2])
          for (at[3] = 0; at[3] < problem.shape[3]; ++at[3]) {
            const Reference& right = references[static_cast<std::size_t>(group_index(problem, at))];
            const auto c = static_cast<std::size_t>(dense_index(problem.shape, affine, at));
            const int plus = problem.convention.gamma == GammaOffset::plus_one ? 1 : 0;
            const long double gamma = problem.gamma ? static_cast<long double>(inputs[Role::gamma][c]) + plus : 1;
            ASSERT_NE(gamma, 0) << print(problem);
            const long double beta = problem.beta ? static_cast<long double>(inputs[Role::beta][c]) : 0;
            const long double scaled = gamma * (static_cast<long double>(x[i]) - right.mean) * right.rstd;
            // The mean of a double computation is off by a part of the elements' size, not of the deviations'.
            const long double lost = 0x1p-48L * (std::abs(scaled) + std::abs(beta)) +
                                     0x1p-51L * std::abs(gamma) * right.rstd * std::abs(static_cast<long double>(x[i]));
            ASSERT_LE(std::abs(static_cast<long double>(inputs[Role::y][i]) - (scaled + beta)),
                      half_ulp(scaled + beta) + lost)
                << print(problem);
            ++i;
          }
  }
}

TEST(Data, GammaHasNoZerosWhereTheOutputIsHanded) {
  for (const char* profile : {"conditioned", "exact", "exact_sum"})
    for (const char* convention : {"pytorch", "pytorch,gamma:plus_one"})
      for (std::uint64_t key = 0; key < 20; ++key) {
        Problem problem =
            parsed("backward_training layer_norm n=1 k=200 saved=1 from_output=1 profile=" + std::string(profile) +
                   " convention=" + convention);
        problem.key = key;
        const float plus = problem.convention.gamma == GammaOffset::plus_one ? 1 : 0;
        const Inputs inputs = make_inputs(problem);
        for (const float value : inputs[Role::gamma]) ASSERT_GE(std::abs(value + plus), 0x1p-20F);
        for (const float value : inputs[Role::y]) ASSERT_TRUE(std::isfinite(value));
      }
}

TEST(Data, BackwardIsAboutTheForwardsData) {
  const std::vector<float> forward = make_inputs(parsed("forward_training group_norm n=3 g=2 k=4 s=5 key=9"))[Role::x];
  EXPECT_TRUE(
      same_bits(forward, make_inputs(parsed("backward_training group_norm n=3 g=2 k=4 s=5 saved=1 key=9"))[Role::x]));
  const std::string inference = " batch_norm n=3 k=4 s=5 given=running key=9";
  const Inputs given = make_inputs(parsed("forward_inference" + inference));
  const Inputs backward = make_inputs(parsed("backward_inference" + inference));
  for (const Role role : {Role::x, Role::gamma, Role::running_mean, Role::running_var})
    EXPECT_TRUE(same_bits(given[role], backward[role])) << name_of(role);
}

TEST(Data, GradientsToAddToAreAwayFromZero) {
  const std::string line = "backward_training layer_norm n=3 k=500 convention=pytorch,gradients:accumulate";
  for (const Role role : {Role::dgamma, Role::dbeta}) {
    std::set<float> distinct;
    for (const float value : drawn(line, role)) {
      EXPECT_TRUE(std::abs(value) >= 2 && std::abs(value) <= 8) << value;
      distinct.insert(value);
    }
    EXPECT_GT(distinct.size(), 450U);
    for (const float value : drawn(line + " profile=exact", role))
      EXPECT_TRUE(value == std::round(value) && std::abs(value) >= 2 && std::abs(value) <= 8) << value;
  }
  const Inputs overwritten = make_inputs(parsed("backward_training layer_norm n=3 k=500"));
  EXPECT_TRUE(same_bits(overwritten[Role::dy], make_inputs(parsed(line))[Role::dy]));
}

// ---- cotangents -----------------------------------------------------------------------------------------------------

TEST(Data, RecordedGradients) {
  const Inputs inputs =
      make_inputs(parsed("backward_training layer_norm n=2 k=3 kappa=10 saved=1 cotangent=mixed key=0x1f2e "
                         "convention=pytorch,gradients:accumulate"));
  std::string text;
  for (const Role role : {Role::x, Role::mean, Role::stat, Role::dy, Role::dgamma}) {
    for (const float value : inputs[role]) text += hexfloat(static_cast<double>(value)) + " ";
    text += "| ";
  }
  EXPECT_EQ(text,
            "-0x1.2af2a4p+3 -0x1.c25b04p+3 -0x1.7efa64p+3 -0x1.5b76e8p+3 -0x1.5e2468p+3 -0x1.468368p+3 | "
            "-0x1.796d5ap+3 -0x1.555f92p+3 | 0x1.088766p-1 0x1.83b3a6p+1 | 0x1.1157c6p+3 -0x1.83a7bcp-1 0x1.b2dbc2p+1 "
            "-0x1.7962p+0 -0x1.f85814p-1 -0x1.60634cp+2 | 0x1.4a7c34p+2 -0x1.b6951p+2 0x1.0cd59cp+2 | ");
}

TEST(Data, OnesAndPooledAreConstantWhereTheyMayBeBroadcast) {
  for (const VariantRow& row : variant_table()) {
    const std::string start = "backward_training " + std::string(row.name) + " n=3 g=2 k=4 s=5 key=3 cotangent=";
    for (const float value : drawn(start + "ones dy.layout=ngks", Role::dy)) EXPECT_EQ(value, 1.0F);
    for (const char* profile : {"conditioned", "exact"}) {
      const std::vector<float> dy =
          make_inputs(parsed(start + "pooled dy.layout=NGKs profile=" + std::string(profile)))[Role::dy];
      const bool exact = std::string_view(profile) == "exact";
      std::set<float> distinct;
      for (std::size_t i = 0; i < dy.size(); ++i) {
        EXPECT_EQ(dy[i], dy[i / 5 * 5]);
        EXPECT_TRUE(!exact || (dy[i] == std::round(dy[i]) && std::abs(dy[i]) <= 2)) << dy[i];
        distinct.insert(dy[i]);
      }
      EXPECT_GE(distinct.size(), exact ? 4U : 24U);
    }
  }
}

// x̂ of every element, by the definition.
std::vector<long double> normalized(const Problem& problem, const std::vector<float>& x) {
  std::vector<Reference> references;
  for (const auto& group : groups_of(problem, x)) references.push_back(reference_of(problem, group));
  std::vector<long double> result;
  Shape at{};
  for (at[0] = 0; at[0] < problem.shape[0]; ++at[0])
    for (at[1] = 0; at[1] < problem.shape[1]; ++at[1])
      for (at[2] = 0; at[2] < problem.shape[2]; ++at[2])
        for (at[3] = 0; at[3] < problem.shape[3]; ++at[3]) {
          const Reference& right = references[static_cast<std::size_t>(group_index(problem, at))];
          result.push_back((static_cast<long double>(x[result.size()]) - right.mean) * right.rstd);
        }
  return result;
}

TEST(Data, NormalizedCotangentsAreTheNormalizedInput) {
  for (Problem problem : handed_problems()) {
    problem.cotangent = Cotangent::normalized;
    problem.handed = problem.key % 2 == 0 ? Handed::nearest : Handed::shifted;  // x̂ is the true one all the same
    const Inputs inputs = make_inputs(problem);
    const std::vector<long double> hat = normalized(problem, inputs[Role::x]);
    for (std::size_t i = 0; i < hat.size(); ++i)
      ASSERT_LE(std::abs(static_cast<long double>(inputs[Role::dy][i]) - hat[i]), half_ulp(hat[i]) + 0x1p-28L)
          << print(problem);
  }
}

// In every group dy is a + b·x̂ + z/64: what a straight line through two elements leaves is small, and a and b are not.
TEST(Data, MixedCotangentsHaveBothNullDirections) {
  std::set<int> signs;
  for (Problem problem : handed_problems()) {
    if (problem.profile == Profile::near_constant || problem.profile == Profile::needle) continue;
    // About the mean, not about 0, x̂ is nearly a constant: no line tells a from b.
    if (!row_of(problem.variant).centred && problem.kappa > 1) continue;
    problem.cotangent = Cotangent::mixed;
    const Inputs inputs = make_inputs(problem);
    const std::vector<long double> hat = normalized(problem, inputs[Role::x]);
    std::vector<float> hats;
    for (const long double value : hat) hats.push_back(static_cast<float>(value));
    const auto groups = groups_of(problem, inputs[Role::dy]);
    const auto directions = groups_of(problem, hats);
    for (std::size_t q = 0; q < groups.size(); ++q) {
      // The least-squares line.
      double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
      for (std::size_t i = 0; i < groups[q].size(); ++i) {
        const auto h = static_cast<double>(directions[q][i]);
        const auto d = static_cast<double>(groups[q][i]);
        n += 1, sx += h, sy += d, sxx += h * h, sxy += h * d;
      }
      const double b = (n * sxy - sx * sy) / (n * sxx - sx * sx);
      const double a = (sy - b * sx) / n;
      ASSERT_TRUE(std::abs(a) > 0.9 && std::abs(a) < 4.1) << a << " " << print(problem);
      ASSERT_TRUE(std::abs(b) > 0.9 && std::abs(b) < 4.1) << b << " " << print(problem);
      signs.insert((a > 0 ? 1 : 0) + (b > 0 ? 2 : 0));
      for (std::size_t i = 0; i < groups[q].size(); ++i) {
        const double line = a + b * static_cast<double>(directions[q][i]);
        ASSERT_LT(std::abs(static_cast<double>(groups[q][i]) - line), 0.2) << print(problem);
      }
    }
  }
  EXPECT_EQ(signs.size(), 4U);
}

TEST(Data, InferenceCotangentsUseTheGivenStatistics) {
  for (const char* convention : {"pytorch", "caffe", "pytorch,saved:variance", "pytorch,eps:outside"})
    for (const char* given : {"running", "saved"}) {
      const Problem problem =
          parsed("backward_inference batch_norm n=9 k=3 s=2 cotangent=normalized kappa=4 given=" + std::string(given) +
                 " convention=" + convention);
      const Inputs inputs = make_inputs(problem);
      const bool running = problem.given == Given::running;
      const double weight =
          inputs[Role::running_weight].empty() ? 1.0 : static_cast<double>(inputs[Role::running_weight][0]);
      for (std::size_t i = 0; i < inputs[Role::x].size(); ++i) {
        const std::size_t c = i / 2 % 3;
        const double mean = static_cast<double>(inputs[running ? Role::running_mean : Role::mean][c]) / weight;
        const double stat = static_cast<double>(inputs[running ? Role::running_var : Role::stat][c]) / weight;
        const bool reciprocal = !running && problem.convention.saved == SavedStatistic::rstd;
        const double d = problem.convention.eps == EpsPlacement::outside ? std::sqrt(stat) + problem.eps
                                                                         : std::sqrt(stat + problem.eps);
        const double hat = (static_cast<double>(inputs[Role::x][i]) - mean) * (reciprocal ? stat : 1 / d);
        ASSERT_NEAR(static_cast<double>(inputs[Role::dy][i]), hat, 0x1p-23 * (1 + std::abs(hat))) << print(problem);
      }
    }
}

TEST(Data, CotangentsAreFiniteWhateverTheExplicitValues) {
  for (const char* cotangent : {"normalized", "mixed"})
    for (const char* rest : {"backward_inference layer_norm k=3 given=saved values=x:[3e38,1,nan];stat:[3e38]",
                             "backward_training layer_norm k=3 eps=0 values=x:[2,2,2]",
                             "backward_training layer_norm k=3 values=x:[inf,1,2]"})
      for (const float value : drawn(std::string(rest) + " cotangent=" + cotangent, Role::dy))
        EXPECT_TRUE(std::isfinite(value)) << rest;
}

TEST(Data, UnitCotangentsHaveOneOneInTheirGroupsAndMeetTheEdges) {
  std::map<std::size_t, int> positions;
  int with = 0;
  int groups_seen = 0;
  for (std::uint64_t key = 0; key < 60; ++key) {
    Problem problem = parsed("backward_training layer_norm n=16 k=67 cotangent=unit");
    problem.key = key;
    const auto groups = groups_of(problem, make_inputs(problem)[Role::dy]);
    for (std::size_t q = 0; q < groups.size(); ++q) {
      std::size_t here = 0;
      for (std::size_t i = 0; i < groups[q].size(); ++i) {
        ASSERT_TRUE(groups[q][i] == 0 || groups[q][i] == 1);
        if (groups[q][i] == 0) continue;
        ++here;
        ++positions[i];
      }
      ASSERT_LE(here, 1U);
      ASSERT_TRUE(q > 0 || here == 1);
      with += here > 0 ? 1 : 0;
      ++groups_seen;
    }
  }
  EXPECT_NEAR(static_cast<double>(with) / groups_seen, 0.5, 0.1);
  for (const std::size_t edge : {0U, 66U, 15U, 16U, 17U, 31U, 32U, 33U, 63U, 64U})
    EXPECT_GT(positions[edge], 0) << edge;
}

TEST(Data, ExactCotangentsAreIntegersOnBothSides) {
  for (const char* profile : {"exact", "exact_sum"}) {
    std::map<float, int> seen;
    const std::string line = "backward_training layer_norm n=40 k=64 level=3 profile=" + std::string(profile);
    for (const float value : drawn(line, Role::dy)) {
      ASSERT_TRUE(value == std::round(value) && value >= -3 && value <= 4) << value;
      ++seen[value];
    }
    EXPECT_EQ(seen.size(), 8U) << profile;
  }
}

// With exact_eps and an even group everything that is handed is exact: an integer mean, a power of two, and an output
// that no rounding touches.
TEST(Data, ExactProblemsAreHandedExactValues) {
  for (const VariantRow& row : variant_table())
    for (const EpsPlacement placement : {EpsPlacement::inside, EpsPlacement::outside, EpsPlacement::floor})
      for (const SavedStatistic saved : {SavedStatistic::rstd, SavedStatistic::variance})
        for (const std::int32_t level : {1, 3, 31}) {
          Problem problem =
              parsed("backward_training " + std::string(row.name) + " n=2 g=2 k=6 s=4 saved=1 profile=exact");
          problem.convention.eps = placement;
          problem.convention.saved = saved;
          problem.level = level;
          const std::optional<double> eps = exact_eps(problem.convention, level);
          if (!eps) continue;
          problem.eps = *eps;
          problem.cotangent = Cotangent::normalized;
          const Inputs inputs = make_inputs(problem);
          const auto groups = groups_of(problem, inputs[Role::x]);
          float rstd = 1;
          for (std::size_t q = 0; q < groups.size(); ++q) {
            const Reference right = reference_of(problem, groups[q]);
            ASSERT_EQ(right.variance, static_cast<long double>(level) * level);
            rstd = static_cast<float>(right.rstd);
            int exponent = 0;
            ASSERT_EQ(std::frexp(rstd, &exponent), 0.5F) << print(problem);
            ASSERT_EQ(inputs[Role::stat][q], saved == SavedStatistic::rstd ? rstd : static_cast<float>(right.variance));
            ASSERT_TRUE(!row.centred || static_cast<long double>(inputs[Role::mean][q]) == right.mean);
          }
          for (const float value : inputs[Role::dy])
            ASSERT_EQ(std::abs(value), static_cast<float>(level) * rstd) << print(problem);
          Problem from_output = problem;
          from_output.from_output = true;
          const Inputs output = make_inputs(from_output);
          for (const float value : output[Role::y]) ASSERT_EQ(value / rstd, std::round(value / rstd));
        }
}

TEST(Data, SpecialCotangentsHoldNanAndInfinitiesInSomeGroups) {
  for (const char* cotangent : {"random", "ones", "mixed"}) {
    int special = 0;
    int groups_seen = 0;
    int clean_x_special_dy = 0;
    std::set<int> classes;
    for (std::uint64_t key = 0; key < 60; ++key) {
      Problem problem =
          parsed("backward_training layer_norm n=9 k=33 profile=special cotangent=" + std::string(cotangent));
      problem.key = key;
      const Inputs inputs = make_inputs(problem);
      const auto x = groups_of(problem, inputs[Role::x]);
      const auto dy = groups_of(problem, inputs[Role::dy]);
      for (std::size_t q = 0; q < dy.size(); ++q) {
        int here = 0;
        for (const float value : dy[q]) {
          if (std::isfinite(value)) continue;
          ++here;
          classes.insert(std::isnan(value) ? 0 : value > 0 ? 1 : 2);
        }
        ASSERT_LE(here, 1);
        special += here;
        ++groups_seen;
        const bool clean = std::all_of(x[q].begin(), x[q].end(), [](float value) { return std::isfinite(value); });
        clean_x_special_dy += here > 0 && clean ? 1 : 0;
      }
    }
    EXPECT_NEAR(static_cast<double>(special) / groups_seen, 0.25, 0.08) << cotangent;
    EXPECT_EQ(classes.size(), 3U) << cotangent;
    EXPECT_GT(clean_x_special_dy, 20) << cotangent;
  }
}

// A NaN in x is a NaN in what is handed of its group, and in no other's.
TEST(Data, SpecialGroupsAreHandedNan) {
  for (const char* from_output : {"0", "1"})
    for (std::uint64_t key = 0; key < 20; ++key) {
      Problem problem =
          parsed("backward_training layer_norm n=9 k=33 saved=1 gamma=0 beta=0 profile=special from_output=" +
                 std::string(from_output));
      problem.key = key;
      const Inputs inputs = make_inputs(problem);
      const auto x = groups_of(problem, x_of(problem));
      for (std::size_t q = 0; q < x.size(); ++q) {
        const bool clean = std::all_of(x[q].begin(), x[q].end(), [](float value) { return std::isfinite(value); });
        EXPECT_EQ(std::isnan(inputs[Role::stat][q]), !clean);
        if (problem.from_output)
          for (std::size_t i = 0; i < 33; ++i) EXPECT_EQ(std::isnan(inputs[Role::y][q * 33 + i]), !clean);
        else
          EXPECT_EQ(std::isfinite(inputs[Role::mean][q]), clean);
      }
    }
}

// What data.hpp promises: random, ones and pooled gradients stay when samples are added.
TEST(Data, GradientsStayWhenSamplesAreAdded) {
  for (const char* cotangent : {"random", "ones", "pooled"})
    for (const VariantRow& row : variant_table()) {
      const std::string start =
          "backward_training " + std::string(row.name) + " g=2 k=3 s=4 key=5 cotangent=" + cotangent;
      const std::vector<float> few = make_inputs(parsed(start + " n=2"))[Role::dy];
      std::vector<float> many = make_inputs(parsed(start + " n=7"))[Role::dy];
      many.resize(few.size());
      EXPECT_TRUE(same_bits(few, many)) << start;
    }
}

TEST(Data, OneValueUnderNMinus1) {
  const std::string start = "backward_training layer_norm n=3 k=1 saved=1 convention=pytorch,normalizing:n_minus_1";
  for (const float value : drawn(start, Role::stat)) EXPECT_TRUE(std::isnan(value));
  for (const char* single : {"zero", "unchanged"})
    for (const float value : drawn(start + ",single:" + single + " eps=0.25", Role::stat)) EXPECT_EQ(value, 2.0F);
}

}  // namespace
}  // namespace normgate
