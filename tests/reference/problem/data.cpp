// The data profiles: Philox against its known answers, what each profile promises, and what an element may depend on.
#include "reference/problem/data.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
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
            "-0x1.81eb44p+3 -0x1.5a6164p+3 -0x1.73ac24p+3 -0x1.347608p+3 -0x1.4f14a8p+3 -0x1.5dd308p+3 | "
            "-0x1.dbb5b4p+1 0x1.090faap+1 0x1.9fdcb6p+1 | -0x1.7ce9dcp+2 0x1.20e83ap+1 -0x1.14cf2p+1 | ");
}

TEST(Data, EveryReadRoleIsFilledAndNoOther) {
  for (const char* line :
       {"forward_training layer_norm n=2 g=3 k=4 s=5", "forward_training batch_norm n=2 g=3 k=4 s=5 running=1 saved=1",
        "forward_training batch_norm n=0 g=3 k=4 s=5 running=1", "forward_training rms_norm n=2 k=0 gamma=0",
        "forward_inference batch_norm n=2 k=4 given=running convention=caffe",
        "forward_inference instance_norm n=2 k=4 s=3 given=running",
        "forward_inference group_norm n=2 g=2 k=4 s=3 given=saved beta=0"})
    for (int profile = 0; profile < 9; ++profile) {
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
    const bool special = problem.profile == Profile::special;
    const bool may_be_special = special && role != Role::running_weight;
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
  placed.eps = 0.5;
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

}  // namespace
}  // namespace normgate
