// The certificates of the fast tier against the definition at 100 digits: the two values differ by no more than the two
// bounds together, for every output and statistic; and the certificates are of use.
#include <fmt/format.h>

#include <map>

#include "problems.hpp"

namespace normgate {
namespace {

struct Seen {
  std::size_t values = 0;
  double share = 0;    // |difference| over the sum of both bounds, the largest
  double weakest = 0;  // bound over the scale of the row, the largest on ordinary data
};

class Comparison {
 public:
  void compare(const std::string& what, const Exact& fast, const Exact& definition) {
    Seen& seen = seen_[what];
    ++seen.values;
    if (!definition.finite()) {
      ++special_;
      EXPECT_TRUE(same(fast, definition)) << what << ": " << fast.hi << ", not " << definition.hi;
      return;
    }
    ASSERT_TRUE(std::isfinite(fast.hi) && std::isfinite(fast.lo) && std::isfinite(fast.bound)) << what;
    // hi's are neighbours, so that the first difference is exact; long double leaves the second as good as exact.
    const long double difference = std::fabs((static_cast<long double>(fast.hi) - definition.hi) +
                                             (static_cast<long double>(fast.lo) - definition.lo));
    const auto allowed = static_cast<long double>(fast.bound) + definition.bound;
    EXPECT_LE(difference, allowed) << what << ": " << fast.hi << " + " << fast.lo << " within " << fast.bound
                                   << ", not " << definition.hi << " + " << definition.lo;
    EXPECT_LE(std::fabs(fast.lo), 0x1p-53 * std::fabs(fast.hi));
    if (difference > 0) seen.share = std::max(seen.share, static_cast<double>(difference / allowed));
  }
  void compare(const std::string& what, const std::vector<Exact>& fast, const std::vector<Exact>& definition) {
    ASSERT_EQ(fast.size(), definition.size()) << what;
    for (std::size_t i = 0; i < fast.size() && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(i);
      compare(what, fast[i], definition[i]);
    }
  }
  void compare(const Truth& fast, const Truth& definition) {
    for (std::size_t r = 0; r < role_count; ++r) {
      const Role role = static_cast<Role>(r);
      compare(std::string(name_of(role)), fast.out[role], definition.out[role]);
    }
    ASSERT_EQ(fast.groups.size(), definition.groups.size());
    for (std::size_t q = 0; q < fast.groups.size() && !testing::Test::HasFailure(); ++q) {
      const GroupTruth& a = fast.groups[q];
      const GroupTruth& b = definition.groups[q];
      SCOPED_TRACE(q);
      compare("group's mean", a.mean, b.mean);
      compare("group's variance", a.variance, b.variance);
      compare("group's rstd", a.rstd, b.rstd);
    }
  }
  // A certificate against the scale of its row.
  void weigh(const std::string& what, const Exact& fast, double scale) {
    double& weakest = seen_[what].weakest;
    weakest = std::max(weakest, fast.bound / scale);
  }
  void weigh(const std::string& what, const std::vector<Exact>& fast, double scale) {
    for (const Exact& value : fast) weigh(what, value, scale);
  }
  [[nodiscard]] const std::map<std::string, Seen>& seen() const { return seen_; }
  [[nodiscard]] std::size_t special() const { return special_; }  // values that are not finite
  void report(const std::string& title) const {
    fmt::print("{}\n", title);
    for (const auto& [what, seen] : seen_)
      if (seen.values > 0)
        fmt::print("  {:16} {:8} values, worst tightness (certificate / true error) {:.1f}{}\n", what, seen.values,
                   seen.share > 0 ? 1 / seen.share : 0.0,
                   seen.weakest > 0
                       ? fmt::format(", weakest certificate 2^{:.1f} of the scale", std::log2(seen.weakest))
                       : "");
  }

 private:
  std::map<std::string, Seen> seen_;
  std::size_t special_ = 0;
};

double largest(const std::vector<Exact>& values) {
  double result = 0;
  for (const Exact& value : values) result = std::max(result, std::fabs(value.hi));
  return result;
}
double largest(const std::vector<float>& values) {
  double result = 0;
  for (const float value : values) result = std::max(result, std::fabs(static_cast<double>(value)));
  return result;
}

double modulus(const std::vector<float>& values) {
  double result = 0;
  for (const float value : values) result += std::fabs(static_cast<double>(value));
  return result;
}

// Whether the fast tier covers the problem; then its outputs and statistics are compared.
bool compare_tiers(const Problem& problem, const Inputs& inputs, SavedUse use, Comparison& comparison) {
  const auto fast = tiers::fast_truth(problem, inputs, use);
  if (fast) comparison.compare(*fast, definition_truth(problem, inputs, use));
  return fast.has_value();
}

void compare_forward(Phase phase, std::uint64_t key, Comparison& comparison) {
  Draw draw(key);
  int covered = 0;
  int trials = 0;
  int unspoilt = 0;
  int unspoilt_covered = 0;
  for (; trials < 3000 && !testing::Test::HasFailure(); ++trials) {
    const Problem problem = draw_problem(draw, phase);
    SCOPED_TRACE(print(problem));
    ASSERT_EQ(check(problem), "");
    Inputs inputs = make_inputs(problem);
    const bool spoilt = spoil_some(draw, inputs);
    const auto fast = tiers::fast_forward(problem, inputs, Wanted::everything);
    const bool defined = problem.eps != 0;
    unspoilt += !spoilt && defined;
    if (!fast) continue;
    ++covered;
    unspoilt_covered += !spoilt && defined;
    comparison.compare(*fast, definition_forward(problem, inputs));
  }
  fmt::print("{}: {} of {} problems covered, {} of {} with a profile's data and an eps\n", name_of(phase), covered,
             trials, unspoilt_covered, unspoilt);
  EXPECT_GT(covered, trials * 3 / 4);
  EXPECT_GT(unspoilt_covered, unspoilt * 9 / 10);
}

TEST(FastTier, EnclosesTheDefinitionInForwardTraining) {
  Comparison comparison;
  compare_forward(Phase::forward_training, 1, comparison);
  comparison.report("forward_training");
  EXPECT_GT(comparison.seen().at("y").values, 50000U);
  for (const char* what : {"mean", "stat", "running_mean", "running_var", "running_weight"})
    EXPECT_GT(comparison.seen().at(what).values, 100U) << what;
}

TEST(FastTier, EnclosesTheDefinitionInForwardInference) {
  Comparison comparison;
  compare_forward(Phase::forward_inference, 2, comparison);
  comparison.report("forward_inference");
  EXPECT_GT(comparison.seen().at("y").values, 50000U);
}

std::vector<SavedUse> uses_of(const Problem& problem) {
  if (!problem.saved) return {SavedUse::undeclared};
  if (problem.from_output) return {SavedUse::from_output};
  return {SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes};
}

void compare_backward(Phase phase, std::uint64_t key, Comparison& comparison) {
  Draw draw(key);
  int covered = 0;
  int trials = 0;
  int unspoilt = 0;
  int unspoilt_covered = 0;
  for (; trials < 2500 && !testing::Test::HasFailure(); ++trials) {
    const Problem problem = draw_problem(draw, phase);
    SCOPED_TRACE(print(problem));
    ASSERT_EQ(check(problem), "");
    Inputs inputs = make_inputs(problem);
    const bool spoilt = spoil_some(draw, inputs);
    const std::vector<SavedUse> uses = uses_of(problem);
    const SavedUse use = one_of(draw, uses);
    SCOPED_TRACE(static_cast<int>(use));
    const auto fast = tiers::fast_backward(problem, inputs, use);
    const bool defined = problem.eps != 0 && !spoilt;
    unspoilt += defined;
    if (!fast) continue;
    ++covered;
    unspoilt_covered += defined;
    comparison.compare(*fast, definition_backward(problem, inputs, use));
  }
  fmt::print("{}: {} of {} problems covered, {} of {} with a profile's data and an eps\n", name_of(phase), covered,
             trials, unspoilt_covered, unspoilt);
  EXPECT_GT(covered, trials * 3 / 4);
  EXPECT_GT(unspoilt_covered, unspoilt * 9 / 10);
}

TEST(FastTier, EnclosesTheDefinitionInBackwardTraining) {
  Comparison comparison;
  compare_backward(Phase::backward_training, 3, comparison);
  comparison.report("backward_training");
  EXPECT_GT(comparison.seen().at("dx").values, 50000U);
  for (const char* what : {"dgamma", "dbeta"}) EXPECT_GT(comparison.seen().at(what).values, 5000U) << what;
}

TEST(FastTier, EnclosesTheDefinitionInBackwardInference) {
  Comparison comparison;
  compare_backward(Phase::backward_inference, 4, comparison);
  comparison.report("backward_inference");
  EXPECT_GT(comparison.seen().at("dx").values, 50000U);
  for (const char* what : {"dgamma", "dbeta"}) EXPECT_GT(comparison.seen().at(what).values, 5000U) << what;
}

TEST(FastTier, CertificatesOfForwardAreOfUse) {
  Comparison comparison;
  for (const char* variant :
       {"batch_norm n=300 g=1 k=2 s=3", "layer_norm n=2 g=1 k=1000 s=1", "group_norm n=2 g=2 k=12 s=60",
        "instance_norm n=2 g=1 k=2 s=800", "rms_norm n=2 g=1 k=4000 s=1", "layer_norm n=1 g=1 k=70000 s=1"})
    for (const char* data :
         {"", "kappa=1000", "kappa=1e6", "profile=outlier_channels", "profile=drift", "profile=exact",
          "profile=near_constant kappa=100", "convention=keras,eps:outside", "eps=0 convention=keras,eps:floor"}) {
      const Problem problem = problem_of(fmt::format("forward_training {} {}", variant, data));
      SCOPED_TRACE(print(problem));
      const Inputs inputs = make_inputs(problem);
      const auto fast = tiers::fast_forward(problem, inputs, Wanted::everything);
      ASSERT_TRUE(fast.has_value());
      comparison.compare(*fast, definition_forward(problem, inputs));
      comparison.weigh("y", fast->out[Role::y], largest(fast->out[Role::y]) + largest(inputs[Role::beta]));
    }
  comparison.report("forward_training, ordinary data");
  EXPECT_LE(comparison.seen().at("y").weakest, 0x1p-75);
}

TEST(FastTier, CertificatesOfBackwardAreOfUse) {
  Comparison comparison;
  for (const char* variant :
       {"batch_norm n=300 g=1 k=2 s=3", "layer_norm n=3 g=1 k=1000 s=1", "group_norm n=2 g=2 k=12 s=60",
        "instance_norm n=2 g=1 k=2 s=800", "rms_norm n=2 g=1 k=4000 s=1", "layer_norm n=1 g=1 k=70000 s=1",
        "layer_norm n=5000 g=1 k=4 s=1", "group_norm n=40 g=2 k=20 s=1", "layer_norm n=2 g=3 k=5 s=40",
        "layer_norm n=37 g=1 k=600 s=1"})
    for (const char* data :
         {"", "kappa=1000", "kappa=1e6 saved=1", "profile=outlier_channels", "profile=drift saved=1",
          "saved=1 from_output=1", "cotangent=mixed", "cotangent=ones", "profile=near_constant kappa=100 saved=1",
          "convention=keras,eps:outside", "convention=keras,gamma:plus_one"}) {
      const Problem problem = problem_of(fmt::format("backward_training {} {}", variant, data));
      const Inputs inputs = make_inputs(problem);
      const double largest_dy = largest(inputs[Role::dy]);
      for (const SavedUse use : uses_of(problem)) {
        SCOPED_TRACE(print(problem));
        const auto fast = tiers::fast_backward(problem, inputs, use);
        ASSERT_TRUE(fast.has_value());
        comparison.compare(*fast, definition_backward(problem, inputs, use));
        const std::vector<std::size_t> groups = groups_of(problem);
        for (std::size_t at = 0; at < groups.size(); ++at) {
          const double rstd = problem.from_output ? static_cast<double>(inputs[Role::stat][groups[at]])
                                                  : fast->groups[groups[at]].rstd.hi;
          comparison.weigh("dx", fast->out[Role::dx][at], rstd * largest_dy);
        }
        // The mean of Σ|dy| over the channels: what dbeta is a sum of, and dgamma with factors around 1.
        const Shape channels = restricted(problem.shape, row_of(problem.variant).affine);
        const double terms = modulus(inputs[Role::dy]) / static_cast<double>(element_count(channels));
        comparison.weigh("dgamma", fast->out[Role::dgamma], terms);
        comparison.weigh("dbeta", fast->out[Role::dbeta], terms);
      }
    }
  comparison.report("backward_training, ordinary data");
  for (const char* what : {"dx", "dgamma", "dbeta"}) EXPECT_LE(comparison.seen().at(what).weakest, 0x1p-75) << what;
}

// The ends of float32's range side by side, in every tensor, around the ends of eps.
TEST(FastTier, EnclosesTheDefinitionAtTheEndsOfTheRange) {
  Comparison comparison;
  Draw draw(5);
  int covered = 0;
  int trials = 0;
  for (; trials < 4000 && !testing::Test::HasFailure(); ++trials) {
    Problem problem = draw_problem(draw, normalizing_phases[draw.below(4)]);
    problem.shape = {1 + draw.below(3), 1 + draw.below(2), 1 + draw.below(3), 1 + draw.below(9)};
    problem.eps = one_of(draw, std::initializer_list<double>{0x1p-126, 0x1p126, 0x1.fffffep-40, 0});
    SCOPED_TRACE(print(problem));
    Inputs inputs = make_inputs(problem);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const bool variance = role == Role::stat || role == Role::running_var || role == Role::running_weight;
      const std::uint32_t kind = draw.below(5);
      for (float& value : inputs[role]) {
        const float tiny = static_cast<float>(1 + draw.below(3)) * 0x1p-149F;
        const float huge = std::bit_cast<float>(0x7F7FFFFFU - draw.below(2) * 0x00800000U);
        if (kind == 0) continue;
        value = kind == 1 ? tiny : kind == 2 ? huge : kind == 3 ? (draw.coin() ? tiny : huge) : draw.any_float();
        if (draw.coin()) value = -value;
        if (variance) value = std::fabs(value);
      }
    }
    const SavedUse use = is_backward(problem.phase) ? one_of(draw, uses_of(problem)) : SavedUse::undeclared;
    covered += compare_tiers(problem, inputs, use, comparison);
  }
  fmt::print("{} of {} problems covered\n", covered, trials);
  comparison.report("ends of the range");
  EXPECT_GT(covered, trials * 2 / 3);
}

// NaN, infinities and zeros anywhere: the definition's extended-real value, and certificates for what is finite.
TEST(FastTier, SaysWhatTheDefinitionSaysBesideSpecialValues) {
  for (const Phase phase : normalizing_phases) {
    Comparison comparison;
    Draw draw(6);
    int covered = 0;
    int trials = 0;
    for (; trials < 3000 && !testing::Test::HasFailure(); ++trials) {
      Problem problem = draw_problem(draw, phase);
      const bool profile = draw.coin();
      if (profile) problem.profile = Profile::special;
      SCOPED_TRACE(print(problem));
      Inputs inputs = make_inputs(problem);
      if (!profile) sprinkle(draw, inputs);
      const SavedUse use = is_backward(phase) ? one_of(draw, uses_of(problem)) : SavedUse::undeclared;
      SCOPED_TRACE(static_cast<int>(use));
      covered += compare_tiers(problem, inputs, use, comparison);
    }
    fmt::print("{} of {} problems covered, {} values not finite\n", covered, trials, comparison.special());
    comparison.report(fmt::format("{} beside special values", name_of(phase)));
    EXPECT_GT(covered, trials * 4 / 5);
    EXPECT_GT(comparison.special(), 20000U);
  }
}

// A variance that equals eps is a kink of the floor, which sums with an error cannot tell; a given one can be compared.
TEST(FastTier, DoesNotCoverAKinkOfTheFloor) {
  const std::string floor = "convention=keras,eps:floor gamma=0 beta=0";
  for (const auto& [eps, covers] : {std::pair{0.99, true}, {1.0, false}, {1.01, true}}) {
    Problem problem = problem_of("backward_training layer_norm n=1 g=1 k=4 s=1 " + floor);
    problem.convention.scalars = Scalars::float64;
    problem.eps = eps;
    Inputs inputs;
    inputs[Role::x] = {2, 0, 0, 2};
    inputs[Role::dy] = {1, 2, 3, 5};
    EXPECT_EQ(tiers::fast_backward(problem, inputs, SavedUse::recomputes).has_value(), covers) << eps;
    Comparison comparison;
    comparison.compare(backward_truth(problem, inputs, SavedUse::recomputes),
                       definition_backward(problem, inputs, SavedUse::recomputes));
    problem.saved = true;
    problem.convention.saved = SavedStatistic::variance;
    inputs[Role::mean] = {1};
    inputs[Role::stat] = {1};
    const auto handed = tiers::fast_backward(problem, inputs, SavedUse::short_form);
    ASSERT_TRUE(handed.has_value());
    comparison.compare(*handed, definition_backward(problem, inputs, SavedUse::short_form));
  }
}

// Where the high part of a variance is the floor, the low part tells which of the two D is made of; where not even that
// does, a gradient's kink is not covered.
TEST(FastTier, EnclosesWhatIsAboveItsFloorByALowPart) {
  for (const float tiny : {0x1p-30F, 0x1p-40F, 0x1p-75F}) {
    for (const char* phase : {"forward_training", "backward_training"}) {
      const Problem problem = problem_of(
          std::string(phase) + " layer_norm n=1 g=1 k=4 s=1 eps=0.5 gamma=0 beta=0 convention=keras,eps:floor");
      Inputs inputs;
      inputs[Role::x] = {1, -1, tiny, -tiny};
      inputs[Role::dy] = {1, 2, 3, 5};
      Comparison comparison;
      EXPECT_EQ(compare_tiers(problem, inputs, SavedUse::recomputes, comparison),
                !is_backward(problem.phase) || tiny > 0x1p-50F);
    }
  }
}

// The certificate of a constant group is 0 in all but 1/D.
TEST(FastTier, ConstantGroupsAreExact) {
  for (const char* eps : {"inside", "outside", "floor"}) {
    const Problem problem = problem_of(fmt::format(
        "forward_training batch_norm n=7 g=1 k=3 s=11 profile=constant kappa=1000 convention=keras,eps:{}", eps));
    const Inputs inputs = make_inputs(problem);
    const auto fast = tiers::fast_forward(problem, inputs, Wanted::everything);
    ASSERT_TRUE(fast.has_value());
    for (std::size_t i = 0; i < 7 * 3 * 11; ++i) {
      EXPECT_EQ(fast->out[Role::y][i].hi, static_cast<double>(inputs[Role::beta][i / 11 % 3]));
      EXPECT_EQ(fast->out[Role::y][i].lo, 0);
      EXPECT_LE(fast->out[Role::y][i].bound, 0x1p-90);
    }
    for (const GroupTruth& group : fast->groups) {
      EXPECT_EQ(group.mean.bound, 0);
      EXPECT_EQ(group.variance.hi, 0);
      EXPECT_EQ(group.variance.bound, 0);
    }
  }
}

// 2^24 + 3 elements of 3 ± 5, the last of 3: mean 3, and a variance of 25 (n-1) / n.
TEST(FastTier, LongGroupsKeepTheirCertificate) {
  constexpr std::int64_t n = (std::int64_t{1} << 24) + 3;
  Problem problem = problem_of(fmt::format("forward_training layer_norm n=1 g=1 k={} s=1 gamma=0 beta=0 saved=1", n));
  Inputs inputs;
  inputs[Role::x].resize(static_cast<std::size_t>(n), 3);
  for (std::size_t i = 0; i + 1 < inputs[Role::x].size(); ++i) inputs[Role::x][i] = i % 2 == 0 ? 8.0F : -2.0F;
  const auto fast = tiers::fast_forward(problem, inputs, Wanted::statistics);
  ASSERT_TRUE(fast.has_value());
  const GroupTruth& group = fast->groups[0];
  EXPECT_EQ(group.mean.hi, 3);
  EXPECT_LE(std::fabs(group.mean.lo), group.mean.bound);
  EXPECT_LE(group.mean.bound, 0x1p-80);
  // 25 (n-1) / n = 25 - 25/n; its two parts by long division, in units that doubles hold.
  const double high = 25 - 25 / static_cast<double>(n);
  EXPECT_EQ(group.variance.hi, high);
  const long double rest = (25.0L - static_cast<long double>(high)) - 25.0L / n;  // to 2^-64 of 25/n
  EXPECT_LE(std::fabs(static_cast<long double>(group.variance.lo) - rest), group.variance.bound + 0x1p-83L);
  EXPECT_LE(group.variance.bound, 0x1p-79);
}

}  // namespace
}  // namespace normgate
