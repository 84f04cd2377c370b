// The closed form of the gradients against differences of the forward definition, to 50 digits of the row scale; and
// the differences against themselves: their orders of convergence, their kinks.
#include <algorithm>
#include <cmath>

#include "drawn.hpp"
#include "reference/truth/hundred_digits-inl.h"

namespace normgate {
namespace {

using hundred_digits::AllDigits;
using hundred_digits::T;

struct Setting {
  Phase phase;
  Given given;
};

// Every row, with the phases and given statistics that it has.
template <typename Visit>
void for_each_setting(Visit visit) {
  for (const VariantRow& row : variant_table())
    for (const Setting& setting :
         {Setting{Phase::backward_training, Given::none}, Setting{Phase::backward_inference, Given::saved},
          Setting{Phase::backward_inference, Given::running}})
      if (setting.given != Given::running || !row.running.empty()) visit(row, setting);
}

// The row scales of MATH §3, in double: r (max|g| + max|x^| |mean(g x^)|); sum |dy x^|; sum |dy|.
struct Scales {
  std::vector<double> dx;  // by group
  std::vector<double> dgamma;
  std::vector<double> dbeta;
};

Scales scales_of(const Problem& problem, const Inputs& inputs, const Truth& truth) {
  const std::vector<std::size_t> group = groups_of(problem);
  const std::vector<std::size_t> channel = channels_of(problem);
  const std::size_t groups = truth.groups.size();
  const auto channels = static_cast<std::size_t>(problem.shape[1] * problem.shape[2]);
  std::vector<double> g(groups, 0.0);
  std::vector<double> normalized(groups, 0.0);
  std::vector<double> product(groups, 0.0);
  Scales scales{std::vector<double>(groups, 0x1p-126), std::vector<double>(channels, 0x1p-126),
                std::vector<double>(channels, 0x1p-126)};
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::size_t q = group[i];
    const std::size_t c = channel[i];
    double gamma = 1;
    if (problem.gamma)
      gamma =
          static_cast<double>(inputs[Role::gamma][c]) + (problem.convention.gamma == GammaOffset::plus_one ? 1.0 : 0.0);
    const double dy = static_cast<double>(inputs[Role::dy][i]);
    const double hat = (static_cast<double>(inputs[Role::x][i]) - truth.groups[q].mean.hi) * truth.groups[q].rstd.hi;
    g[q] = std::max(g[q], std::fabs(dy * gamma));
    normalized[q] = std::max(normalized[q], std::fabs(hat));
    product[q] += dy * gamma * hat;
    scales.dgamma[c] += std::fabs(dy * hat);
    scales.dbeta[c] += std::fabs(dy);
  }
  for (std::size_t q = 0; q < groups; ++q) {
    const double mean = is_training(problem.phase) ? product[q] / static_cast<double>(group_size(problem)) : 0;
    scales.dx[q] += std::fabs(truth.groups[q].rstd.hi) * (g[q] + normalized[q] * std::fabs(mean));
  }
  return scales;
}

struct Comparison {
  std::size_t compared = 0;
  std::size_t kinks = 0;
  double worst = 0;  // difference over row scale; infinite where only one of the two is a number
  std::string where;
};

void compare(const std::string& what, const T& a, const T& b, double scale, Comparison& comparison) {
  ++comparison.compared;
  double share = 0;
  if (isnan(a) || isnan(b)) {
    share = isnan(a) && isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  } else {
    share = std::fabs(static_cast<double>(T(a - b))) / scale;
  }
  if (share > comparison.worst) {
    comparison.worst = share;
    comparison.where = what;
  }
}

Comparison compare(const Problem& problem, const Inputs& inputs, const AllDigits& closed, const AllDigits& witness,
                   const std::vector<bool>& kink, const Truth& truth) {
  Comparison comparison;
  const Scales scales = scales_of(problem, inputs, truth);
  const std::vector<std::size_t> group = groups_of(problem);
  for (const Role role : {Role::dx, Role::dgamma, Role::dbeta}) {
    EXPECT_EQ(closed[role].size(), witness[role].size()) << name_of(role);
    for (std::size_t i = 0; i < std::min(closed[role].size(), witness[role].size()); ++i) {
      if (role == Role::dx && kink[group[i]]) {
        ++comparison.kinks;
        continue;
      }
      const double scale = role == Role::dx       ? scales.dx[group[i]]
                           : role == Role::dgamma ? scales.dgamma[i]
                                                  : scales.dbeta[i];
      compare(std::string(name_of(role)) + " at " + std::to_string(i), closed[role][i], witness[role][i], scale,
              comparison);
    }
  }
  return comparison;
}

Comparison compare(const Problem& problem) {
  const Inputs inputs = make_inputs(problem);
  const Truth truth = definition_backward(problem, inputs, SavedUse::recomputes);
  const Differences differences = finite_differences(problem, inputs);
  // What both round to differs by no more than their bounds.
  for (const Role role : {Role::dx, Role::dgamma, Role::dbeta})
    for (std::size_t i = 0; i < truth.out[role].size(); ++i) {
      if (role == Role::dx && differences.kink[groups_of(problem)[i]]) continue;
      const Exact& a = truth.out[role][i];
      const Exact& b = differences.out[role][i];
      if (a.finite())
        EXPECT_LE(std::fabs((a.hi - b.hi) + (a.lo - b.lo)), a.bound + b.bound) << name_of(role) << " at " << i;
      else
        EXPECT_TRUE(same(a, b)) << name_of(role) << " at " << i;
    }
  return compare(problem, inputs, hundred_digits::backward_digits(problem, inputs, SavedUse::recomputes),
                 hundred_digits::difference_digits(problem, inputs, DifferenceOrder::fourth, -25), differences.kink,
                 truth);
}

// All of row, phase, placement of eps, divisor and w or 1+w, on every profile and cotangent with finite data; the rest
// is drawn.
TEST(GradientWitness, TheClosedFormIsTheDerivativeToFiftyDigits) {
  Draw draw(31415);
  std::size_t compared = 0;
  std::size_t kinks = 0;
  for_each_setting([&](const VariantRow& row, const Setting& setting) {
    for (std::uint32_t convention = 0; convention < 12; ++convention)
      for (std::uint32_t profile = 0; profile < 10; ++profile)
        for (std::uint32_t cotangent = 0; cotangent < 6; ++cotangent) {
          if (static_cast<Profile>(profile) == Profile::special) continue;
          Problem problem;
          problem.phase = setting.phase;
          problem.variant = row.variant;
          problem.given = setting.given;
          problem.convention.eps = static_cast<EpsPlacement>(convention % 3);
          problem.convention.normalizing = static_cast<NormalizingDivisor>(convention / 3 % 2);
          problem.convention.gamma = static_cast<GammaOffset>(convention / 6);
          problem.convention.single = any<SingleCount>(draw, 3);
          problem.convention.momentum = any<MomentumForm>(draw, 4);
          problem.convention.saved = any<SavedStatistic>(draw, 2);
          problem.convention.gradients = any<Gradients>(draw, 2);
          problem.profile = static_cast<Profile>(profile);
          problem.cotangent = static_cast<Cotangent>(cotangent);
          for (std::int64_t& extent : problem.shape) extent = 1 + draw.below(3);
          problem.saved = setting.phase == Phase::backward_training && draw.coin();  // of no account here
          problem.gamma = draw.below(4) != 0;
          problem.beta = draw.below(4) != 0;
          problem.eps = std::array{static_cast<double>(1e-5F), 0.25, 1.0, 3.0}[draw.below(4)];
          problem.kappa = std::array{0.0, 1.0, 1000.0, 1e6}[draw.below(4)];
          problem.scale = std::array{-7, 0, 13}[draw.below(3)];
          problem.level = 1 + 2 * static_cast<std::int32_t>(draw.below(3));
          problem.key = draw.word();
          SCOPED_TRACE(print(problem));
          ASSERT_EQ(check(problem), "");
          const Comparison comparison = compare(problem);
          EXPECT_LE(comparison.worst, 1e-50) << comparison.where;
          compared += comparison.compared;
          kinks += comparison.kinks;
          if (testing::Test::HasFailure()) return;
        }
  });
  EXPECT_GT(compared, 100000U);
  EXPECT_GT(kinks, 1000U);  // the constant profile with eps outside alone
  EXPECT_LT(kinks, compared / 20);
}

// Groups of 64 and odd ones below, where sums are longer.
TEST(GradientWitness, HoldsForLongerGroups) {
  for (const char* line :
       {"backward_training layer_norm n=2 g=1 k=64 s=1 kappa=1000", "backward_training layer_norm n=1 g=1 k=63 s=2",
        "backward_training batch_norm n=16 g=1 k=2 s=4 convention=pytorch,eps:outside profile=drift",
        "backward_training group_norm n=2 g=2 k=8 s=8 convention=pytorch,normalizing:n_minus_1 cotangent=mixed",
        "backward_training instance_norm n=2 g=1 k=2 s=61 profile=needle cotangent=unit",
        "backward_training rms_norm n=2 g=1 k=64 s=1 eps=0.25 convention=pytorch,eps:floor profile=outlier_channels"}) {
    SCOPED_TRACE(line);
    const Comparison comparison = compare(problem_of(line));
    EXPECT_LE(comparison.worst, 1e-50) << comparison.where;
    EXPECT_EQ(comparison.kinks, 0U);
    EXPECT_GE(comparison.compared, 120U);
  }
}

// The comparison sees every difference that a convention makes, and a missing term.
TEST(GradientWitness, RefusesTheGradientOfAnotherConvention) {
  Problem problem = problem_of("backward_training batch_norm n=9 g=1 k=2 s=1 eps=0.25 beta=0");
  const Inputs inputs = make_inputs(problem);
  const AllDigits witness = hundred_digits::difference_digits(problem, inputs, DifferenceOrder::fourth, -25);
  const std::vector<bool> kink(2, false);
  const auto worst = [&](const Problem& other, SavedUse use = SavedUse::recomputes) {
    return compare(problem, inputs, hundred_digits::backward_digits(other, inputs, use), witness, kink,
                   definition_backward(problem, inputs, SavedUse::recomputes))
        .worst;
  };
  EXPECT_LE(worst(problem), 1e-50);
  for (const char* convention :
       {"pytorch,normalizing:n_minus_1", "pytorch,eps:outside", "pytorch,eps:floor", "pytorch,gamma:plus_one"}) {
    Problem other = problem;
    other.convention = *parse_convention(convention).convention;
    EXPECT_GT(worst(other), 1e-3) << convention;
  }
  Problem other = problem;
  other.eps = std::nextafterf(0.25F, 1.0F);
  EXPECT_GT(worst(other), 1e-9);
  EXPECT_LT(worst(other), 1e-6);
  // Statistics that are constants: the two mean terms are missing.
  other = problem;
  other.phase = Phase::backward_inference;
  other.given = Given::saved;
  Inputs given = inputs;
  for (const GroupTruth& group : definition_backward(problem, inputs, SavedUse::recomputes).groups) {
    given[Role::mean].push_back(static_cast<float>(group.mean.hi));
    given[Role::stat].push_back(static_cast<float>(group.rstd.hi));
  }
  const AllDigits constant = hundred_digits::backward_digits(other, given, SavedUse::recomputes);
  EXPECT_GT(
      compare(problem, inputs, constant, witness, kink, definition_backward(problem, inputs, SavedUse::recomputes))
          .worst,
      1e-2);
}

// Where f''' and f^(5) do not vanish the errors fall with the second and the fourth power of the step.
TEST(GradientWitness, DifferencesConvergeWithTheirOrders) {
  for (const char* line : {"backward_training layer_norm n=1 g=1 k=7 s=1 eps=0.25 beta=0 gamma=0",
                           "backward_training batch_norm n=7 g=1 k=1 s=1 eps=0.25 convention=pytorch,eps:outside",
                           "backward_training instance_norm n=1 g=1 k=1 s=7 convention=sample_variance",
                           "backward_training rms_norm n=1 g=1 k=7 s=1 eps=0.25 convention=pytorch,eps:floor"}) {
    SCOPED_TRACE(line);
    const Problem problem = problem_of(line);
    const Inputs inputs = make_inputs(problem);
    const AllDigits closed = hundred_digits::backward_digits(problem, inputs, SavedUse::recomputes);
    const Truth truth = definition_backward(problem, inputs, SavedUse::recomputes);
    for (const DifferenceOrder order : {DifferenceOrder::second, DifferenceOrder::fourth}) {
      const auto error = [&](int exponent, std::size_t i) {
        return static_cast<double>(
            T(hundred_digits::difference_digits(problem, inputs, order, exponent)[Role::dx][i] - closed[Role::dx][i]));
      };
      for (std::size_t i = 0; i < 7; ++i) {
        double previous = 0;
        for (const int exponent : {-2, -3, -5, -8, -12}) {
          const double now = std::fabs(error(exponent, i));
          ASSERT_GT(now, 0.0);
          // Within what the differences say of themselves.
          const Exact stated = finite_differences(problem, inputs, order, exponent).out[Role::dx][i];
          EXPECT_LE(now, stated.bound + 0x1p-104 * std::fabs(stated.hi)) << exponent;
          if (previous > 0) {
            const int steps = exponent == -3 ? 1 : exponent == -5 ? 2 : exponent == -8 ? 3 : 4;
            const double observed = std::log10(previous / now) / steps;
            EXPECT_NEAR(observed, static_cast<double>(order), 0.05) << "at " << i << ", 10^" << exponent;
          }
          previous = now;
        }
      }
    }
    EXPECT_TRUE(truth.groups[0].rstd.finite());
  }
}

// What an audit prints of every row, with Richardson's extrapolation beside them.
TEST(GradientWitness, TheObservedOrdersAreThoseOfTheory) {
  for (const VariantRow& row : variant_table())
    for (const char* convention : {"pytorch", "pytorch,eps:outside", "pytorch,gamma:plus_one"}) {
      Problem problem = problem_of("backward_training layer_norm n=2 g=1 k=6 s=2 eps=0.0625 key=0x7");
      problem.variant = row.variant;
      problem.convention = *parse_convention(convention).convention;
      const std::vector<Convergence> methods = convergence(problem, make_inputs(problem));
      ASSERT_EQ(methods.size(), 3U);
      int order = 0;
      for (const Convergence& method : methods) {
        EXPECT_EQ(method.order, order += 2);
        EXPECT_NEAR(method.observed, method.order, 0.01) << row.name << " " << convention << " " << method.method;
        EXPECT_EQ(method.steps.size(), method.errors.size());
        EXPECT_TRUE(std::is_sorted(method.errors.rbegin(), method.errors.rend())) << method.method;
      }
      // A higher order is nearer at the same step.
      EXPECT_LT(methods[1].errors.front(), methods[0].errors.front());
      EXPECT_LT(methods[2].errors.front(), methods[1].errors.front());
    }
}

// Without a derivative there is nothing to compare, and the witness says so; at its neighbours it compares.
TEST(GradientWitness, KinksAreFlagged) {
  const auto kinks = [](const std::string& line) {
    const Problem problem = problem_of(line);
    return finite_differences(problem, make_inputs(problem)).kink;
  };
  using Flags = std::vector<bool>;
  const std::string pair = "backward_training layer_norm n=2 g=1 k=2 s=1 gamma=0 beta=0 ";
  // Variances 0 and 1.
  EXPECT_EQ(kinks(pair + "convention=pytorch,eps:outside values=x:[3,3,1,3]"), (Flags{true, false}));
  EXPECT_EQ(kinks(pair + "values=x:[3,3,1,3]"), (Flags{false, false}));
  EXPECT_EQ(kinks(pair + "eps=0 values=x:[3,3,1,3]"), (Flags{true, false}));
  EXPECT_EQ(kinks(pair + "eps=1 convention=pytorch,eps:floor values=x:[3,3,1,3]"), (Flags{false, true}));
  // A variance of 1 + 2^-22 + 2^-46 and of 1 - 2^-23 + 2^-48: off the kink by far more than the steps.
  EXPECT_EQ(kinks(pair + "eps=1 convention=pytorch,eps:floor values=x:[-1,1.0000004768371582,-1,0.99999988079071045]"),
            (Flags{false, false}));
  // With n-1 the second group's variance is 2.
  EXPECT_EQ(kinks(pair + "eps=2 convention=pytorch,eps:floor,normalizing:n_minus_1 values=x:[3,3,1,3]"),
            (Flags{false, true}));
  // Steps of 0.1 deviations straddle a floor that is 5 % away.
  const Problem near = problem_of(pair + "eps=1.05 convention=pytorch,eps:floor values=x:[3,3,1,3]");
  const Inputs inputs = make_inputs(near);
  EXPECT_EQ(finite_differences(near, inputs).kink, (Flags{false, false}));
  EXPECT_EQ(finite_differences(near, inputs, DifferenceOrder::fourth, -1).kink, (Flags{false, true}));
  // One centred value has the variance 0 wherever it moves, given statistics do not move: smooth.
  EXPECT_EQ(kinks("backward_training layer_norm n=2 g=1 k=1 s=1 convention=pytorch,eps:outside"),
            (Flags{false, false}));
  EXPECT_EQ(kinks("backward_inference rms_norm n=2 g=1 k=1 s=1 given=saved convention=pytorch,eps:outside "
                  "values=stat:[0,1]"),
            (Flags{false, false}));
}

}  // namespace
}  // namespace normgate
