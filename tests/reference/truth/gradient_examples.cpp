// Gradients worked by hand: small rational cases of every convention and use, what cancels exactly, and how far apart
// two uses of the same rounded statistics are.
#include <boost/multiprecision/gmp.hpp>
#include <cmath>

#include "reference/truth/backward.hpp"
#include "reference/truth/hundred_digits-inl.h"
#include "support.hpp"

namespace normgate {
namespace {

using Rational = boost::multiprecision::mpq_rational;

Truth gradients(const Problem& problem, SavedUse use = SavedUse::recomputes) {
  EXPECT_EQ(check(problem), "") << print(problem);
  return definition_backward(problem, make_inputs(problem), use);
}
Truth gradients(const std::string& line, SavedUse use = SavedUse::recomputes) {
  return gradients(problem_of(line), use);
}

void expect_rationals(const std::vector<Exact>& got, const std::vector<Rational>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Rational distance = abs(Rational(Rational(got[i].hi) + Rational(got[i].lo) - wanted[i]));
    EXPECT_LE(distance, Rational(got[i].bound)) << got[i].hi << " instead of " << wanted[i] << " at " << i;
    EXPECT_LE(got[i].bound, 1e-30 * std::max(1.0, std::fabs(got[i].hi)));
  }
}

// x = [1, 3]: mean 2, variance 1; dy = [1, 0]: sum(g)/n = 1/2, sum g d = -1.
TEST(GradientExamples, TwoValuesAndEveryPlacementOfEps) {
  const std::string pair = "backward_training layer_norm n=1 g=1 k=2 s=1 values=x:[1,3];dy:[1,0];gamma:[1,1] ";
  const auto placed = [&](const std::string& placement) { return gradients(pair + placement); };
  // D = 2: r (g - 1/2) -+ r^3/2
  const Truth inside = placed("eps=3");
  expect_exactly(inside.out[Role::dx], {0.1875, -0.1875});
  expect_exactly(inside.out[Role::dgamma], {-0.5, 0});
  expect_exactly(inside.out[Role::dbeta], {1, 0});
  // D = 1 + 1: the last term has r²/sqrt(v) = 1/4 for r^3
  expect_exactly(placed("eps=1 convention=pytorch,eps:outside").out[Role::dx], {0.125, -0.125});
  // The floor below the variance: two values without eps only ever come out as -1 and 1.
  expect_exactly(placed("eps=0.25 convention=pytorch,eps:floor").out[Role::dx], {0, 0});
  // Above it D is constant, and on it D counts as constant.
  expect_exactly(placed("eps=4 convention=pytorch,eps:floor").out[Role::dx], {0.25, -0.25});
  expect_exactly(placed("eps=1 convention=pytorch,eps:floor").out[Role::dx], {0.5, -0.5});
  // Under n-1 the variance is 2: D = 2 with eps = 2, last term over 1.
  expect_exactly(placed("eps=2 convention=sample_variance").out[Role::dx], {0.125, -0.125});
}

// x = [0, 0, 3]: mean 1, deviations -1, -1, 2.
TEST(GradientExamples, ThreeValuesWithThirds) {
  const std::string three = "backward_training batch_norm n=3 g=1 k=1 s=1 values=x:[0,0,3];dy:[1,0,0];gamma:[1] ";
  // variance 2, D = 2: [1/3, -1/6, -1/6] + d/24
  const Truth by_n = gradients(three + "eps=2");
  expect_rationals(by_n.out[Role::dx], {Rational(7, 24), Rational(-5, 24), Rational(-1, 12)});
  expect_exactly(by_n.out[Role::dgamma], {-0.5});
  expect_exactly(by_n.out[Role::dbeta], {1});
  // variance 3, D = 2: ... + d/16
  expect_rationals(gradients(three + "eps=1 convention=sample_variance").out[Role::dx],
                   {Rational(13, 48), Rational(-11, 48), Rational(-1, 24)});
  // 1 + w = 2 doubles g, and with it dx, but not dgamma.
  const Truth offset = gradients(three + "eps=2 convention=pytorch,gamma:plus_one");
  expect_rationals(offset.out[Role::dx], {Rational(7, 12), Rational(-5, 12), Rational(-1, 6)});
  expect_exactly(offset.out[Role::dgamma], {-0.5});
}

// The mean square of [1, 2, 2] is 3, D = 2, g = [2, 0, 0]: no mean is taken off.
TEST(GradientExamples, RootMeanSquare) {
  const Truth truth =
      gradients("backward_training rms_norm n=1 g=1 k=3 s=1 eps=1 beta=0 values=x:[1,2,2];dy:[1,0,0];gamma:[2,1,1]");
  expect_rationals(truth.out[Role::dx], {Rational(11, 12), Rational(-1, 6), Rational(-1, 6)});
  expect_exactly(truth.out[Role::dgamma], {0.5, 0, 0});
  EXPECT_TRUE(truth.out[Role::dbeta].empty());
}

// Two groups of two channels: what dgamma and dbeta collect in each row. D = 2 in all groups.
TEST(GradientExamples, ParametersCollectTheirChannel) {
  const std::string values = " eps=3 values=x:[1,3,3,1,5,7,7,5];dy:[1,2,3,4,5,6,7,8];gamma:[1,1]";
  // Elements (n, k, s); x^ = -1/2 or 1/2; channel k has positions 2k, 2k+1 and 4+2k, 5+2k.
  for (const char* row : {"instance_norm", "group_norm"}) {
    const std::string shape = std::string(row) == "group_norm" ? " n=2 g=2 k=1 s=2" : " n=2 g=1 k=2 s=2";
    const Truth truth = gradients("backward_training " + std::string(row) + shape + values);
    expect_exactly(truth.out[Role::dgamma], {(-1 + 2 - 5 + 6) / 2.0, (3 - 4 + 7 - 8) / 2.0});
    expect_exactly(truth.out[Role::dbeta], {14, 22});
  }
  // Elements (n, k): x^ alternates within each row.
  const Truth layer = gradients("backward_training layer_norm n=4 g=1 k=2 s=1" + values);
  expect_exactly(layer.out[Role::dgamma], {(-1 + 3 - 5 + 7) / 2.0, (2 - 4 + 6 - 8) / 2.0});
  expect_exactly(layer.out[Role::dbeta], {16, 20});
  const Truth batch =
      gradients("backward_training batch_norm n=2 g=1 k=2 s=1 eps=3 values=x:[1,7,3,5];dy:[1,2,3,4];gamma:[1,1]");
  expect_exactly(batch.out[Role::dgamma], {1, -1});
  expect_exactly(batch.out[Role::dbeta], {4, 6});
}

// Given statistics are constants: dx = g r, x^ from them.
TEST(GradientExamples, Inference) {
  const std::string line = "backward_inference batch_norm n=3 g=1 k=1 s=1 ";
  const std::string values = "values=x:[0,1,3];dy:[1,2,4];gamma:[3];";
  const Truth saved = gradients(line + "given=saved " + values + "mean:[1];stat:[0.5]");
  expect_exactly(saved.out[Role::dx], {1.5, 3, 6});
  expect_exactly(saved.out[Role::dgamma], {(-1 + 0 + 8) / 2.0});
  expect_exactly(saved.out[Role::dbeta], {7});
  EXPECT_EQ(saved.groups[0].mean.hi, 1.0);
  EXPECT_EQ(saved.groups[0].rstd.hi, 0.5);
  EXPECT_TRUE(std::isnan(saved.groups[0].variance.hi));
  const Truth running = gradients(line + "given=running eps=1 " + values + "running_mean:[1];running_var:[3]");
  expect_same(saved.out[Role::dx], running.out[Role::dx], "dx");
  expect_same(saved.out[Role::dgamma], running.out[Role::dgamma], "dgamma");
  // Caffe: mean 2/2, variance 6/2.
  const Truth weighed = gradients(line + "given=running eps=1 convention=caffe " + values +
                                  "running_mean:[2];running_var:[6];running_weight:[2]");
  expect_same(saved.out[Role::dx], weighed.out[Role::dx], "dx");
  expect_same(saved.out[Role::dgamma], weighed.out[Role::dgamma], "dgamma");
}

// Handed a mean of 1 for 2 and a reciprocal of 1/2 (v = 3 without eps): d = [0, 2], sum g d = 0 with dy = [1, 0], so
// take dy = [0, 1]: sum g d = 2, sum(g)/n = 1/2.
TEST(GradientExamples, TheUsesOfHandedStatistics) {
  const std::string pair =
      "backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 values=x:[1,3];dy:[0,1];gamma:[1,1];mean:[1];stat:[0.5] ";
  const Truth short_form = gradients(pair + "eps=3", SavedUse::short_form);
  expect_exactly(short_form.out[Role::dx], {-0.25 - 0.125 * 0, 0.25 - 0.125 * 2 * 1});
  expect_exactly(short_form.out[Role::dgamma], {0, 1});
  // d - mean(d) = [-1, 1] in the last term.
  const Truth textbook = gradients(pair + "eps=3", SavedUse::textbook);
  expect_exactly(textbook.out[Role::dx], {-0.25 + 0.125, 0.25 - 0.125});
  expect_exactly(textbook.out[Role::dgamma], {0, 1});
  // From x alone: what is handed does not matter.
  for (const SavedUse use : {SavedUse::recomputes, SavedUse::undeclared}) {
    const Truth derivative = gradients(pair + "eps=3", use);
    expect_exactly(derivative.out[Role::dx], {-0.1875, 0.1875});
    expect_exactly(derivative.out[Role::dgamma], {0, 0.5});
  }
  // The statistics are those of x in any use.
  for (const Truth* truth : {&short_form, &textbook}) {
    EXPECT_EQ(truth->groups[0].mean.hi, 2.0);
    EXPECT_EQ(truth->groups[0].variance.hi, 1.0);
    EXPECT_EQ(truth->groups[0].rstd.hi, 0.5);
  }
  // eps = 1 outside the root: sqrt(v) = 1/r - eps = 1, r²/sqrt(v) = 1/4; eps = 2: no root, no term.
  expect_exactly(gradients(pair + "eps=1 convention=pytorch,eps:outside", SavedUse::short_form).out[Role::dx],
                 {-0.25, 0.25 - 0.25 * 2});
  expect_exactly(gradients(pair + "eps=2 convention=pytorch,eps:outside", SavedUse::short_form).out[Role::dx],
                 {-0.25, 0.25});
  // As a floor: 1/r² = 4 is above 3.5 and not above 4.
  expect_exactly(gradients(pair + "eps=3.5 convention=pytorch,eps:floor", SavedUse::short_form).out[Role::dx],
                 {-0.25, 0.25 - 0.125 * 2});
  expect_exactly(gradients(pair + "eps=4 convention=pytorch,eps:floor", SavedUse::short_form).out[Role::dx],
                 {-0.25, 0.25});
  // A handed variance: sqrt(0.25 + 3.75) = 2; sqrt(0.25) + 1.5 = 2, r²/sqrt(v) = 1/2; 0.25 below the floor 4.
  const std::string variance =
      "backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 values=x:[1,3];dy:[0,1];gamma:[1,1];mean:[1];stat:[0.25] ";
  const auto with_variance = [&](const std::string& rest) {
    return gradients(variance + rest, SavedUse::short_form).out[Role::dx];
  };
  expect_exactly(with_variance("eps=3.75 convention=pytorch,saved:variance"), {-0.25, 0});
  expect_exactly(with_variance("eps=1.5 convention=pytorch,saved:variance,eps:outside"), {-0.25, -0.75});
  expect_exactly(with_variance("eps=4 convention=pytorch,saved:variance,eps:floor"), {-0.25, 0.25});
  // Rows without a mean have one function for both.
  const std::string rms =
      "backward_training rms_norm n=1 g=1 k=2 s=1 saved=1 eps=3 beta=0 values=x:[1,3];dy:[0,1];gamma:[1,1];stat:[0.5]";
  for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook})
    expect_exactly(gradients(rms, use).out[Role::dx], {-0.125 * 3 / 2, 0.5 - 0.125 * 9 / 2});
}

// y = [0, 2], beta = 1, gamma = 2: x^ = [-1/2, 1/2]; dy = [1, 0] makes g = [2, 0]. With r = 1/2:
// (g - 1 - x^ mean(g x^)) / 2.
TEST(GradientExamples, FromTheOutput) {
  const std::string line =
      "backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 from_output=1 eps=3 "
      "values=y:[0,2];dy:[1,0];gamma:[2,2];beta:[1,1];stat:[0.5] ";
  const Truth truth = gradients(line, SavedUse::from_output);
  expect_exactly(truth.out[Role::dx], {(1 - 0.25) / 2, (-1 + 0.25) / 2});
  expect_exactly(truth.out[Role::dgamma], {-0.5, 0});
  expect_exactly(truth.out[Role::dbeta], {1, 0});
  EXPECT_TRUE(std::isnan(truth.groups[0].mean.hi) && std::isnan(truth.groups[0].rstd.hi));
  // n-1: the last mean is over 1.
  expect_exactly(gradients(line + "convention=sample_variance", SavedUse::from_output).out[Role::dx],
                 {(1 - 0.5) / 2, (-1 + 0.5) / 2});
  // eps = 1 outside: 1/sqrt(v) = 1 in place of r = 1/2 in the last term.
  expect_exactly(gradients("backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 from_output=1 eps=1 "
                           "convention=pytorch,eps:outside values=y:[0,2];dy:[1,0];gamma:[2,2];beta:[1,1];stat:[0.5]",
                           SavedUse::from_output)
                     .out[Role::dx],
                 {0.5 - 0.25, -0.5 + 0.25});
  // 1 + w = 2, no beta.
  expect_exactly(gradients("backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 from_output=1 eps=3 beta=0 "
                           "convention=pytorch,gamma:plus_one values=y:[-1,1];dy:[1,0];gamma:[1,1];stat:[0.5]",
                           SavedUse::from_output)
                     .out[Role::dx],
                 {(1 - 0.25) / 2, (-1 + 0.25) / 2});
  // No gamma either.
  expect_exactly(gradients("backward_training layer_norm n=1 g=1 k=2 s=1 saved=1 from_output=1 eps=3 beta=0 gamma=0 "
                           "values=y:[-0.5,0.5];dy:[2,0];stat:[0.5]",
                           SavedUse::from_output)
                     .out[Role::dx],
                 {(1 - 0.25) / 2, (-1 + 0.25) / 2});
}

// Where mean and deviation are representable all uses are the derivative, to the last of the digits that leave.
TEST(GradientExamples, ExactStatisticsMakeAllUsesOne) {
  const Problem problem =
      problem_of("backward_training layer_norm n=3 g=1 k=8 s=1 saved=1 profile=exact level=3 eps=7");
  const Truth derivative = gradients(problem);
  for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook}) {
    const Truth truth = gradients(problem, use);
    for (const Role role : {Role::dx, Role::dgamma, Role::dbeta})
      expect_same(derivative.out[role], truth.out[role], std::string(name_of(role)));
  }
  Problem output = problem;
  output.from_output = true;
  const Truth from_output = gradients(output, SavedUse::from_output);
  // y is not always representable, but dbeta is none of its business.
  expect_same(derivative.out[Role::dbeta], from_output.out[Role::dbeta], "dbeta");
}

// MATH §7: two formulas of the same rounded statistics are 1.2, 80 and 1340 row ulp apart at kappa = 10, 1e3 and 1e4.
TEST(GradientExamples, ShortAndTextbookDriftApart) {
  const auto apart = [](const std::string& kappa) {
    const Problem problem = problem_of(
        "backward_training layer_norm n=8 g=1 k=768 s=1 saved=1 gamma=0 beta=0 cotangent=mixed kappa=" + kappa);
    const Truth short_form = gradients(problem, SavedUse::short_form);
    const Truth textbook = gradients(problem, SavedUse::textbook);
    const Inputs inputs = make_inputs(problem);
    double worst = 0;
    for (std::size_t q = 0; q < 8; ++q) {
      const GroupTruth& group = short_form.groups[q];
      double g = 0;
      double normalized = 0;
      double product = 0;
      double difference = 0;
      for (std::size_t i = q * 768; i < (q + 1) * 768; ++i) {
        const double dy = static_cast<double>(inputs[Role::dy][i]);
        const double hat = (static_cast<double>(inputs[Role::x][i]) - group.mean.hi) * group.rstd.hi;
        g = std::max(g, std::fabs(dy));
        normalized = std::max(normalized, std::fabs(hat));
        product += dy * hat;
        difference = std::max(difference, std::fabs(short_form.out[Role::dx][i].hi - textbook.out[Role::dx][i].hi));
      }
      const double scale = group.rstd.hi * (g + normalized * std::fabs(product / 768));
      worst = std::max(worst, difference / std::ldexp(1.0, std::ilogb(scale) - 23));
    }
    return worst;
  };
  const double ten = apart("10");
  const double thousand = apart("1000");
  const double ten_thousand = apart("10000");
  EXPECT_GT(ten, 0.05);
  EXPECT_LT(ten, 12);
  EXPECT_GT(thousand, 8);
  EXPECT_LT(thousand, 800);
  EXPECT_GT(ten_thousand, 134);
  EXPECT_LT(ten_thousand, 13400);
}

// One value: centred, it is its own mean and nothing moves with it.
TEST(GradientExamples, OneValue) {
  for (const char* arguments : {"layer_norm n=2", "batch_norm k=2", "group_norm g=2", "instance_norm k=2"}) {
    const std::string line = std::string("backward_training ") + arguments + " eps=0.25 values=x:[3,-7];dy:[5,-1] ";
    SCOPED_TRACE(line);
    for (const char* convention :
         {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor", "pytorch,normalizing:n_minus_1,single:zero",
          "pytorch,normalizing:n_minus_1,single:unchanged"}) {
      const Truth truth = gradients(line + "convention=" + convention);
      expect_exactly(truth.out[Role::dx], {0, 0});
      for (const Exact& value : truth.out[Role::dgamma]) EXPECT_EQ(value.hi, 0.0);
      for (const GroupTruth& group : truth.groups) EXPECT_EQ(group.variance.hi, 0.0);
    }
    const Truth undefined = gradients(line + "convention=pytorch,normalizing:n_minus_1,single:nan");
    for (const Role role : {Role::dx, Role::dgamma})
      for (const Exact& value : undefined.out[role]) EXPECT_TRUE(std::isnan(value.hi)) << name_of(role);
    double sum = 0;
    for (const Exact& value : undefined.out[Role::dbeta]) sum += value.hi;
    EXPECT_EQ(sum, 4.0);
  }
  // The mean square of one value moves with it: x = 3, D = 5: (1 - 9/25) / 5 dy.
  expect_rationals(
      gradients("backward_training rms_norm eps=16 beta=0 gamma=0 convention=sample_variance values=x:[3];dy:[5]")
          .out[Role::dx],
      {Rational(16, 25)});
}

// A constant group: x^ = 0, dx = r (g - sum(g)/n) in every placement, at the kink of eps outside the root too.
TEST(GradientExamples, ConstantGroups) {
  for (const char* convention : {"pytorch", "pytorch,eps:outside", "pytorch,eps:floor"}) {
    const double eps = std::string(convention) == "pytorch,eps:outside" ? 2 : 4;
    const Truth truth = gradients(
        "backward_training layer_norm n=1 g=1 k=4 s=1 values=x:[0.1,0.1,0.1,0.1];dy:[4,0,0,-8];gamma:[1,2,3,1] eps=" +
        std::to_string(eps) + " convention=" + convention);
    expect_exactly(truth.out[Role::dx], {2.5, 0.5, 0.5, -3.5});
    expect_exactly(truth.out[Role::dgamma], {0, 0, 0, 0});
  }
}

TEST(GradientExamples, AccumulatingAddsToWhatIsThere) {
  const std::string line = "backward_training batch_norm n=3 g=1 k=1 s=1 eps=2 values=x:[0,0,3];dy:[1,0,0];gamma:[1]";
  const Truth truth = gradients(line + ";dgamma:[10];dbeta:[0.5] convention=pytorch,gradients:accumulate");
  expect_exactly(truth.out[Role::dgamma], {9.5});
  expect_exactly(truth.out[Role::dbeta], {1.5});
  expect_same(truth.out[Role::dx], gradients(line).out[Role::dx], "dx");
  // Bits far below the old value are not lost.
  const Truth tiny = gradients(
      "backward_inference batch_norm n=1 given=saved convention=pytorch,gradients:accumulate "
      "values=x:[1];dy:[0x1p-60];gamma:[1];mean:[0];stat:[1];dgamma:[1];dbeta:[1]");
  for (const Role role : {Role::dgamma, Role::dbeta}) {
    EXPECT_EQ(tiny.out[role][0].hi, 1.0);
    EXPECT_EQ(tiny.out[role][0].lo, 0x1p-60);
  }
  // Inference too, and every row.
  for (const VariantRow& row : variant_table())
    for (const char* phase : {"backward_training ", "backward_inference "}) {
      Problem problem = problem_of(phase + std::string(row.name) + " n=2 g=2 k=2 s=2" +
                                   (phase == std::string("backward_inference ") ? " given=saved" : ""));
      const Truth overwritten = gradients(problem);
      problem.convention.gradients = Gradients::accumulate;
      problem.values[Role::dgamma] = problem.values[Role::dbeta] = {1024, -1024, 2048, 0};
      const Truth added = gradients(problem);
      for (const Role role : {Role::dgamma, Role::dbeta})
        for (std::size_t c = 0; c < 4; ++c) {
          const Exact& a = added.out[role][c];
          const Exact& b = overwritten.out[role][c];
          const double old = static_cast<double>(problem.values[role][c]);
          EXPECT_LE(std::fabs((a.hi - old - b.hi) + (a.lo - b.lo)), 1e-28) << row.name;
        }
    }
}

// MATH §2: dgamma_0 = -3/sqrt(1.5) + 6/sqrt(6) = 0, which no digits prove; the bound must hold it.
TEST(GradientExamples, RootsThatCancel) {
  const Problem problem = problem_of(
      "backward_training layer_norm n=2 g=1 k=4 s=1 eps=1 "
      "values=x:[-1,0,0,1,-3,-1,1,3];dy:[3,0,0,0,-2,0,0,0];gamma:[1,1,1,1]");
  const Truth truth = gradients(problem);
  const Exact& zero = truth.out[Role::dgamma][0];
  EXPECT_LE(std::fabs(zero.hi + zero.lo), zero.bound);
  EXPECT_LT(zero.bound, 1e-75);
  const auto digits = hundred_digits::backward_digits(problem, make_inputs(problem), SavedUse::recomputes);
  EXPECT_LT(hundred_digits::magnitude(digits[Role::dgamma][0]), 1e-98);
  for (std::size_t c = 1; c < 4; ++c) EXPECT_EQ(truth.out[Role::dgamma][c].hi, 0.0);
  expect_exactly(truth.out[Role::dbeta], {1, 0, 0, 0});
  // One of the two rows alone is far from it.
  EXPECT_NEAR(gradients("backward_training layer_norm n=1 g=1 k=4 s=1 eps=1 values=x:[-1,0,0,1];dy:[3,0,0,0]")
                  .out[Role::dgamma][0]
                  .hi,
              -3 / std::sqrt(1.5), 1e-15);
}

// n = 2 without eps: dx = 0 whatever dy; a gradient of 1 for all, or x^ itself, is in the null space of any row.
TEST(GradientExamples, NullSpace) {
  const Truth pair =
      gradients("backward_training layer_norm n=1 g=1 k=2 s=1 eps=0 gamma=0 beta=0 values=x:[3,5];dy:[1,-2]");
  for (const Exact& dx : pair.out[Role::dx]) EXPECT_LE(std::fabs(dx.hi + dx.lo), dx.bound);
  for (const VariantRow& row : variant_table()) {
    if (!row.centred) continue;
    const Truth ones = gradients("backward_training " + std::string(row.name) +
                                 " n=3 g=2 k=3 s=2 gamma=0 beta=0 cotangent=ones kappa=1000");
    for (std::size_t i = 0; i < 36; ++i) {
      const Exact& dx = ones.out[Role::dx][i];
      EXPECT_LE(std::fabs(dx.hi + dx.lo), dx.bound) << row.name;
      EXPECT_LE(dx.bound, 1e-70);
    }
  }
}

TEST(GradientExamples, EmptyGroupsAndAbsentParameters) {
  const Truth batch = gradients("backward_training batch_norm n=0 g=1 k=2 s=3");
  EXPECT_TRUE(batch.out[Role::dx].empty());
  expect_exactly(batch.out[Role::dgamma], {0, 0});
  expect_exactly(batch.out[Role::dbeta], {0, 0});
  EXPECT_TRUE(std::isnan(batch.groups[1].mean.hi));
  const Truth kept = gradients(
      "backward_training batch_norm n=0 g=1 k=2 s=3 convention=pytorch,gradients:accumulate "
      "values=dgamma:[3,-4];dbeta:[0.5,7]");
  expect_exactly(kept.out[Role::dgamma], {3, -4});
  expect_exactly(kept.out[Role::dbeta], {0.5, 7});
  const Truth layer = gradients("backward_training layer_norm n=0 g=1 k=2 s=1");
  EXPECT_TRUE(layer.groups.empty() && layer.out[Role::dx].empty());
  expect_exactly(layer.out[Role::dgamma], {0, 0});
  EXPECT_TRUE(gradients("backward_training layer_norm n=2 g=1 k=0 s=1").out[Role::dgamma].empty());
  expect_exactly(gradients("backward_training group_norm n=2 g=1 k=2 s=0 saved=1", SavedUse::textbook).out[Role::dbeta],
                 {0, 0});
  expect_exactly(gradients("backward_training group_norm n=2 g=1 k=2 s=0 saved=1 from_output=1", SavedUse::from_output)
                     .out[Role::dgamma],
                 {0, 0});
  expect_exactly(gradients("backward_inference batch_norm n=0 k=2 given=saved").out[Role::dgamma], {0, 0});

  // Absent is one, or nothing; dgamma comes with gamma and dbeta with beta.
  for (const char* phase : {"backward_training ", "backward_inference "}) {
    const std::string line = std::string(phase) + "layer_norm n=2 g=1 k=4 s=1 " +
                             (phase == std::string("backward_inference ") ? "given=saved " : "");
    const Truth ones = gradients(line + "values=gamma:[1,1,1,1]");
    const Truth neither = gradients(line + "gamma=0 beta=0");
    expect_same(ones.out[Role::dx], neither.out[Role::dx], "dx");
    EXPECT_TRUE(neither.out[Role::dgamma].empty() && neither.out[Role::dbeta].empty());
    const Truth without_beta = gradients(line + "beta=0 values=gamma:[1,1,1,1]");
    expect_same(ones.out[Role::dgamma], without_beta.out[Role::dgamma], "dgamma");
    EXPECT_TRUE(without_beta.out[Role::dbeta].empty());
    const Truth without_gamma = gradients(line + "gamma=0");
    expect_same(ones.out[Role::dbeta], without_gamma.out[Role::dbeta], "dbeta");
    EXPECT_TRUE(without_gamma.out[Role::dgamma].empty());
  }
}

// `groups` are the statistics that the forward phase has.
TEST(GradientExamples, GroupsAreTheForwards) {
  for (const VariantRow& row : variant_table())
    for (const bool training : {true, false}) {
      Problem problem = problem_of("backward_training " + std::string(row.name) + " n=3 g=2 k=2 s=2 kappa=100");
      if (!training) {
        problem.phase = Phase::backward_inference;
        problem.given = Given::saved;
      } else {
        problem.saved = true;
        problem.handed = Handed::shifted;
      }
      const Inputs inputs = make_inputs(problem);
      const Truth backward = definition_backward(problem, inputs, SavedUse::short_form);
      Problem forward = problem;
      forward.phase = training ? Phase::forward_training : Phase::forward_inference;
      forward.handed = Handed::nearest;
      forward.beta = false;  // no input of a backward
      const Truth truth = definition_forward(forward, inputs, Wanted::statistics);
      ASSERT_EQ(truth.groups.size(), backward.groups.size());
      for (std::size_t q = 0; q < truth.groups.size(); ++q) {
        EXPECT_TRUE(same(truth.groups[q].mean, backward.groups[q].mean));
        EXPECT_TRUE(same(truth.groups[q].variance, backward.groups[q].variance));
        EXPECT_TRUE(same(truth.groups[q].rstd, backward.groups[q].rstd));
      }
    }
}

}  // namespace
}  // namespace normgate
