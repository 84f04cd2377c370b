// Mistakes in gradients are made here, in plain float code, and the diagnosis must name them; sound results, and wrong
// ones of other kinds, get none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "gate/engine/diagnosis.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

// What one element's gradient is made of.
struct Element {
  float dy, gamma, x, beta;
  float xhat;
  float rstd;
  float mean_of_g, mean_of_gx;  // of dy*gamma and dy*gamma*xhat
  std::int64_t position, size, group;
};

float to_bfloat16(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(mantissa * 256) / 256, exponent);
}

// A float kernel with places to go wrong.
struct Mistakes {
  std::function<float(const Element&)> dx = [](const Element& e) {
    return e.rstd * (e.dy * e.gamma - e.mean_of_g - e.xhat * e.mean_of_gx);
  };
  std::function<float(const Element&)> summed = [](const Element& e) { return e.dy * e.gamma; };
  std::function<float(const Element&)> of_gamma = [](const Element& e) { return e.dy * e.xhat; };
  std::function<float(const Element&)> of_beta = [](const Element& e) { return e.dy; };
  std::function<bool(const Shape&)> reduced = [](const Shape&) { return true; };
  std::function<float(float)> variance = [](float given) { return given; };
  std::function<float(float variance, float eps)> rstd = [](float variance, float eps) {
    return 1 / std::sqrt(variance + eps);
  };
  float divisor_less = 0;           // of the means in dx
  float variance_divisor_less = 0;  // of the variance
  std::int64_t left_out = 0;        // of the sums in dx, at the end
  bool centred = true;
  bool overwrites = false;
  bool folded = false;
};

runner::Outcome run(const Problem& problem, const Inputs& inputs, const Mistakes& mistakes) {
  const VariantRow& row = row_of(problem.variant);
  const Groups groups(problem.shape, row);
  const AxisSet affine = row.affine;
  const auto channels = static_cast<std::size_t>(element_count(restricted(problem.shape, affine)));
  const auto n = static_cast<float>(groups.size());
  const bool inference = problem.phase == Phase::backward_inference;
  runner::Outcome outcome;
  auto& dx = outcome.outputs[Role::dx];
  auto& dgamma = outcome.outputs[Role::dgamma];
  auto& dbeta = outcome.outputs[Role::dbeta];
  const auto start = [&](Role role) {
    const bool adds = problem.convention.gradients == Gradients::accumulate && !mistakes.overwrites;
    return adds ? inputs[role] : std::vector<float>(channels);
  };
  dx.resize(inputs[Role::dy].size());
  if (problem.gamma) dgamma = start(Role::dgamma);
  if (problem.beta) dbeta = start(Role::dbeta);
  for (std::int64_t group = 0; group < groups.count(); ++group) {
    const auto g = static_cast<std::size_t>(group);
    float mean = 0;
    float variance = 0;
    if (inference) {
      mean = inputs[Role::running_mean][g];
      variance = inputs[Role::running_var][g];
    } else {
      groups.for_each(group,
                      [&](std::int64_t i, const Shape&) { mean += inputs[Role::x][static_cast<std::size_t>(i)]; });
      mean = row.centred && mistakes.centred ? mean / n : 0;
      groups.for_each(group, [&](std::int64_t i, const Shape&) {
        const float d = inputs[Role::x][static_cast<std::size_t>(i)] - mean;
        variance += d * d;
      });
      variance = mistakes.variance(variance / (n - mistakes.variance_divisor_less));
    }
    float rstd = mistakes.rstd(variance, static_cast<float>(problem.eps));
    if (!inference && problem.saved) {
      mean = inputs[Role::mean][g];
      rstd = inputs[Role::stat][g];
    }
    std::int64_t position = 0;
    const auto element = [&](std::int64_t index, const Shape& at) {
      const auto i = static_cast<std::size_t>(index);
      const auto c = static_cast<std::size_t>(dense_index(problem.shape, affine, at));
      Element e{};
      e.dy = inputs[Role::dy][i];
      e.gamma = problem.gamma ? inputs[Role::gamma][c] : 1;
      e.x = inputs[Role::x][i];
      e.xhat = (e.x - mean) * rstd;
      e.rstd = rstd;
      e.position = position++;
      e.size = groups.size();
      e.group = group;
      return e;
    };
    float sum = 0;
    float products = 0;
    groups.for_each(group, [&](std::int64_t index, const Shape& at) {
      const Element e = element(index, at);
      if (e.position >= e.size - mistakes.left_out) return;
      const float weighted = mistakes.summed(e);
      sum += weighted;
      products += mistakes.folded ? weighted * e.x : weighted * e.xhat;
    });
    if (mistakes.folded) products = (products - mean * sum) * rstd;
    position = 0;
    groups.for_each(group, [&](std::int64_t index, const Shape& at) {
      Element e = element(index, at);
      e.mean_of_g = row.centred ? sum / (n - mistakes.divisor_less) : 0;
      e.mean_of_gx = products / (n - mistakes.divisor_less);
      dx[static_cast<std::size_t>(index)] = mistakes.dx(e);
      if (!mistakes.reduced(at)) return;
      const auto c = static_cast<std::size_t>(dense_index(problem.shape, affine, at));
      if (problem.gamma) dgamma[c] += mistakes.of_gamma(e);
      if (problem.beta) dbeta[c] += mistakes.of_beta(e);
    });
  }
  return outcome;
}

class BackwardDiagnosisTest : public testing::Test {
 protected:
  BackwardDiagnosisTest() {
    problem_.phase = Phase::backward_training;
    problem_.shape = {5, 1, 37, 1};
    problem_.eps = 0.25;
    problem_.key = 11;
  }
  std::string diagnosis_of(const Mistakes& mistakes, std::string_view only = {}) {
    const Inputs inputs = make_inputs(problem_);
    return diagnosis_of(inputs, run(problem_, inputs, mistakes), only);
  }
  std::string diagnosis_of(const Inputs& inputs, const runner::Outcome& outcome, std::string_view only = {}) {
    const Subject subject{row_of(problem_.variant), problem_.phase, kernel_, problem_.convention};
    const auto explanation = diagnose(problem_, inputs, subject, outcome, only);
    EXPECT_TRUE(!explanation || !explanation->looks_like.empty());
    sentence_ = explanation ? explanation->looks_like : "";
    return explanation ? explanation->diagnosis : "";
  }
  void use_batch_norm() {
    problem_.variant = Variant::batch_norm;
    problem_.shape = {9, 6, 1, 5};
  }
  void use_inference() {
    use_batch_norm();
    problem_.phase = Phase::backward_inference;
    problem_.given = Given::running;
  }
  Problem problem_;
  runner::KernelInfo kernel_;
  std::string sentence_;
};

TEST_F(BackwardDiagnosisTest, SoundResultsAreNotExplained) {
  for (const double kappa : {1.0, 100.0, 1e4})
    for (const Cotangent cotangent : {Cotangent::random, Cotangent::ones, Cotangent::normalized, Cotangent::unit}) {
      problem_.kappa = kappa;
      problem_.cotangent = cotangent;
      EXPECT_EQ(diagnosis_of({}), "") << kappa << " " << name_of(cotangent);
    }
  problem_.saved = true;
  EXPECT_EQ(diagnosis_of({}), "");
  problem_.saved = false;
  use_inference();
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * e.dy * e.gamma; }}), "");
}

TEST_F(BackwardDiagnosisTest, Terms) {
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * (e.dy * e.gamma - e.mean_of_g); }}),
            "xhat term of dx missing");
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * (e.dy * e.gamma - e.xhat * e.mean_of_gx); }}),
            "mean term of dx missing");
  EXPECT_EQ(
      diagnosis_of(
          {.dx = [](const Element& e) { return e.rstd * (e.dy * e.gamma - 2 * e.mean_of_g - e.xhat * e.mean_of_gx); }}),
      "mean term of dx subtracted twice");
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * e.dy * e.gamma; }}),
            "inference formula in training");
  EXPECT_EQ(diagnosis_of(
                {.dx = [](const Element& e) { return e.rstd * e.dy * e.gamma - e.mean_of_g - e.xhat * e.mean_of_gx; }}),
            "means of dx not divided by D");
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.dy; }}), "dx is dy");
  problem_.variant = Variant::rms_norm;
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * e.dy * e.gamma; }}),
            "inference formula in training");
}

TEST_F(BackwardDiagnosisTest, Inference) {
  use_inference();
  EXPECT_EQ(diagnosis_of({}), "training formula in inference");
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * e.dy; }}), "gamma not applied in dx");
}

TEST_F(BackwardDiagnosisTest, Divisors) {
  EXPECT_EQ(diagnosis_of({.divisor_less = 1}), "means of dx over n-1");
  EXPECT_EQ(diagnosis_of({.divisor_less = 37 - 5}), "means of dx over N");
  EXPECT_EQ(diagnosis_of({.divisor_less = -3}),
            "means of dx over n, rounded up to a multiple of 4, or means of dx over n, rounded up to a multiple of 8");
  EXPECT_EQ(diagnosis_of({.left_out = 5}), "elements left out of the sums of dx");
  EXPECT_EQ(sentence_, "the sums of dx lack the last 5 elements (of 37)");
}

TEST_F(BackwardDiagnosisTest, Gamma) {
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * (e.dy - e.mean_of_g - e.xhat * e.mean_of_gx); },
                          .summed = [](const Element& e) { return e.dy; }}),
            "gamma not applied in dx");
  EXPECT_EQ(diagnosis_of({.summed = [](const Element& e) { return e.dy; }}), "gamma missing in the sums of dx");
  EXPECT_EQ(diagnosis_of({.dx =
                              [](const Element& e) {
                                return e.rstd * (e.dy * e.gamma * e.gamma - e.mean_of_g - e.xhat * e.mean_of_gx);
                              },
                          .summed = [](const Element& e) { return e.dy * e.gamma * e.gamma; }}),
            "gamma applied twice in dx");
  EXPECT_EQ(diagnosis_of(
                {.dx = [](const Element& e) { return e.gamma * e.rstd * (e.dy - e.mean_of_g - e.xhat * e.mean_of_gx); },
                 .summed = [](const Element& e) { return e.dy; }}),
            "gamma applied after the sums");
}

TEST_F(BackwardDiagnosisTest, Parameters) {
  EXPECT_EQ(diagnosis_of({.of_gamma = [](const Element& e) { return e.dy; },
                          .of_beta = [](const Element& e) { return e.dy * e.xhat; }}),
            "dgamma and dbeta swapped");
  EXPECT_EQ(diagnosis_of({.of_gamma = [](const Element& e) { return e.dy * e.x; }}), "dgamma from x instead of xhat");
  EXPECT_EQ(diagnosis_of({.of_gamma = [](const Element& e) { return e.dy * e.xhat / e.rstd; }}), "dgamma lacks 1/D");
  EXPECT_EQ(diagnosis_of({.of_gamma = [](const Element& e) { return e.dy * e.gamma * e.xhat; }}), "dgamma of dy*gamma");
  EXPECT_EQ(diagnosis_of({.of_gamma = [](const Element& e) { return e.dy * e.xhat / 5; },
                          .of_beta = [](const Element& e) { return e.dy / 5; }}),
            "gradients of the parameters averaged over N");
  EXPECT_EQ(diagnosis_of({.of_gamma = [](const Element& e) { return e.dy * e.xhat * 1.75F; }}),
            "dgamma off by a factor");
}

TEST_F(BackwardDiagnosisTest, RowsThatAreNotReduced) {
  problem_.shape = {300, 1, 12, 1};
  EXPECT_EQ(diagnosis_of({.reduced = [](const Shape& at) { return at[0] < 256; }}),
            "samples not reduced into dgamma, dbeta");
  EXPECT_EQ(sentence_, "samples from 256 on are not reduced into dgamma, dbeta (of 300)");
  EXPECT_EQ(diagnosis_of({.reduced = [](const Shape& at) { return at[0] == 0; }}),
            "only the first sample reduced into dgamma, dbeta");
  EXPECT_EQ(diagnosis_of({.reduced = [](const Shape& at) { return at[0] > 2; }}),
            "samples not reduced into dgamma, dbeta");
  EXPECT_EQ(sentence_, "the first 3 samples are not reduced into dgamma, dbeta (of 300)");
  // A hole in the middle is none of these.
  EXPECT_EQ(diagnosis_of({.reduced = [](const Shape& at) { return at[0] % 7 != 3; }}), "");
  use_batch_norm();
  EXPECT_EQ(diagnosis_of({.reduced = [](const Shape& at) { return at[3] == 0; }}),
            "only the first position reduced into dgamma, dbeta");
}

TEST_F(BackwardDiagnosisTest, ChannelsOfAGroup) {
  problem_.variant = Variant::group_norm;
  problem_.shape = {3, 4, 3, 5};
  const Inputs inputs = make_inputs(problem_);
  runner::Outcome outcome = run(problem_, inputs, {});
  for (const Role role : {Role::dgamma, Role::dbeta}) {
    auto& values = outcome.outputs[role];
    for (std::size_t g = 0; g < 4; ++g) {
      const float sum = values[3 * g] + values[3 * g + 1] + values[3 * g + 2];
      for (std::size_t k = 0; k < 3; ++k) values[3 * g + k] = sum;
    }
  }
  EXPECT_EQ(diagnosis_of(inputs, outcome), "dgamma per group instead of per channel");
}

TEST_F(BackwardDiagnosisTest, Accumulation) {
  problem_.convention.gradients = Gradients::accumulate;
  EXPECT_EQ(diagnosis_of({}), "");
  EXPECT_EQ(diagnosis_of({.overwrites = true}), "gradients overwritten; declared accumulate");
  problem_.convention.gradients = Gradients::overwrite;
  const Inputs inputs = make_inputs(problem_);
  runner::Outcome outcome = run(problem_, inputs, {});
  for (const Role role : {Role::dgamma, Role::dbeta})
    for (float& value : outcome.outputs[role]) value = std::numeric_limits<float>::quiet_NaN();
  outcome.findings.push_back({runner::FindingKind::unwritten, Role::dgamma, 0, "dgamma was not written"});
  EXPECT_EQ(diagnosis_of(inputs, outcome), "gradients not written or added where overwrite is declared");
}

TEST_F(BackwardDiagnosisTest, ZeroAndHandedOn) {
  const Inputs inputs = make_inputs(problem_);
  const runner::Outcome sound = run(problem_, inputs, {});
  runner::Outcome tail = sound;
  for (std::size_t i = 0; i < tail.outputs[Role::dx].size(); ++i)
    if (i % 37 >= 32) tail.outputs[Role::dx][i] = 0;
  EXPECT_EQ(diagnosis_of(inputs, tail), "dx zero from an element on");
  EXPECT_EQ(sentence_, "dx is zero from element 32 on (of 37)");
  runner::Outcome rows = sound;
  for (std::size_t i = 3 * 37; i < 5 * 37; ++i) rows.outputs[Role::dx][i] = 0;
  EXPECT_EQ(diagnosis_of(inputs, rows), "dx zero from a group on");
  runner::Outcome left = sound;
  for (std::size_t i = 0; i < left.outputs[Role::dx].size(); ++i)
    if (i % 37 >= 32) left.outputs[Role::dx][i] = inputs[Role::dy][i];
  EXPECT_EQ(diagnosis_of(inputs, left), "tail of dx left as dy");
  runner::Outcome zero = sound;
  std::fill(zero.outputs[Role::dgamma].begin(), zero.outputs[Role::dgamma].end(), 0.0F);
  EXPECT_EQ(diagnosis_of(inputs, zero), "dgamma zero");
}

TEST_F(BackwardDiagnosisTest, Conventions) {
  EXPECT_EQ(diagnosis_of({.rstd = [](float variance, float) { return 1 / std::sqrt(variance); }}),
            "eps a floor below the variance; declared inside, or eps ignored");
  EXPECT_EQ(diagnosis_of({.rstd = [](float variance, float eps) { return 1 / std::sqrt(variance + 2 * eps); }}),
            "twice eps");
  problem_.variant = Variant::rms_norm;
  EXPECT_EQ(
      diagnosis_of({.dx = [](const Element& e) { return e.rstd * ((1 + e.gamma) * e.dy - e.xhat * e.mean_of_gx); },
                    .summed = [](const Element& e) { return e.dy * (1 + e.gamma); }}),
      "gamma is 1+w; declared w");
}

TEST_F(BackwardDiagnosisTest, UsesOfHandedStatistics) {
  problem_.saved = true;
  problem_.handed = Handed::shifted;
  kernel_.claim.saved_use = SavedUse::textbook;
  EXPECT_EQ(diagnosis_of({}), "computes from the short form; declared the textbook form");
  kernel_.claim.saved_use = SavedUse::short_form;
  EXPECT_EQ(diagnosis_of({}), "");
  // A kernel that looks at x alone.
  const Inputs inputs = make_inputs(problem_);
  Problem alone = problem_;
  alone.saved = false;
  alone.handed = Handed::nearest;
  EXPECT_EQ(diagnosis_of(inputs, run(alone, inputs, {})),
            "computes from recomputed statistics; declared the short form");
}

TEST_F(BackwardDiagnosisTest, Layouts) {
  use_batch_norm();
  problem_.layout[Role::dy].order = {Axis::n, Axis::s, Axis::g, Axis::k};
  const Inputs inputs = make_inputs(problem_);
  Inputs taken = inputs;
  // Element (n, g, s) stands where the contiguous tensor has another.
  for (std::size_t n = 0; n < 9; ++n)
    for (std::size_t g = 0; g < 6; ++g)
      for (std::size_t s = 0; s < 5; ++s) taken[Role::dy][(n * 5 * 6) + s * 6 + g] = 0;
  std::vector<float> memory(inputs[Role::dy].size());
  for (std::size_t n = 0; n < 9; ++n)
    for (std::size_t g = 0; g < 6; ++g)
      for (std::size_t s = 0; s < 5; ++s) memory[(n * 5 + s) * 6 + g] = inputs[Role::dy][(n * 6 + g) * 5 + s];
  taken[Role::dy] = memory;
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, taken, {})), "dy read as if contiguous, or dy read in the layout of x");
}

TEST_F(BackwardDiagnosisTest, OtherInputs) {
  const Inputs inputs = make_inputs(problem_);
  Inputs swapped = inputs;
  std::swap(swapped[Role::x], swapped[Role::dy]);
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, swapped, {})), "x and dy swapped");
  Inputs positive = inputs;
  for (float& value : positive[Role::gamma]) value = std::fabs(value);
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, positive, {})), "absolute value of gamma");
  problem_.in_place = true;
  runner::Outcome late = run(problem_, inputs, {});
  Inputs over = inputs;
  over[Role::dy] = late.outputs[Role::dx];
  const runner::Outcome of_dx = run(problem_, over, {});
  late.outputs[Role::dgamma] = of_dx.outputs[Role::dgamma];
  late.outputs[Role::dbeta] = of_dx.outputs[Role::dbeta];
  EXPECT_EQ(diagnosis_of(inputs, late), "gradients of the parameters from dx instead of dy");
}

TEST_F(BackwardDiagnosisTest, HandedStatistics) {
  problem_.saved = true;
  Inputs inputs = make_inputs(problem_);
  Inputs handed = inputs;
  const auto eps = static_cast<float>(problem_.eps);
  for (float& value : handed[Role::stat]) value = 1 / std::sqrt(1 / (value * value) + eps);
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, handed, {})), "eps added to a handed reciprocal deviation");
  handed = inputs;
  for (const Role role : {Role::mean, Role::stat})
    for (float& value : handed[role]) value = to_bfloat16(value);
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, handed, {})), "handed statistics rounded to bfloat16");
}

TEST_F(BackwardDiagnosisTest, ShorterTypes) {
  const Inputs inputs = make_inputs(problem_);
  runner::Outcome outcome = run(problem_, inputs, {});
  for (const Role role : {Role::dgamma, Role::dbeta})
    for (float& value : outcome.outputs[role]) value = to_bfloat16(value * 1.02F);
  EXPECT_EQ(diagnosis_of(inputs, outcome), "gradients of the parameters in bfloat16");
}

// A sound kernel that claims too much.
TEST_F(BackwardDiagnosisTest, ClaimsOfAnotherArithmetic) {
  kernel_.claim.accumulator = ScalarType::float64;
  kernel_.claim.statistics = ScalarType::float64;
  problem_.kappa = 100;
  problem_.shape = {3, 1, 700, 1};
  const Inputs inputs = make_inputs(problem_);
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, inputs, {})), "float32 accumulator");
  kernel_.claim.statistics = ScalarType::float32;
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, inputs, {})), "float32 accumulator");
}

// A sum of terms as large as the mean loses its last bits, and dx a multiple of xhat.
TEST_F(BackwardDiagnosisTest, FoldedForm) {
  problem_.saved = true;
  problem_.shape = {3, 1, 257, 1};
  problem_.kappa = 3e4;
  const Inputs inputs = make_inputs(problem_);
  kernel_.claim.group_sum = {SumOrder::interleaved, 8, 1};
  kernel_.claim.saved_use = SavedUse::short_form;
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, inputs, {.folded = true})), "folded form");
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, inputs, {.folded = true}), "folded form"), "folded form");
  // A large mean alone is no reason: this one takes another factor.
  EXPECT_NE(diagnosis_of(inputs, run(problem_, inputs,
                                     {.dx =
                                          [](const Element& e) {
                                            return e.rstd * (1 + 0x1p-9F) *
                                                   (e.dy * e.gamma - e.mean_of_g - e.xhat * e.mean_of_gx);
                                          }})),
            "folded form");
}

// What is unknown, or known to be something else, is not explained.
TEST_F(BackwardDiagnosisTest, NoFalseExplanations) {
  const Inputs inputs = make_inputs(problem_);
  const runner::Outcome sound = run(problem_, inputs, {});
  // One wrong element.
  runner::Outcome one = sound;
  one.outputs[Role::dx][40] *= 1.5F;
  EXPECT_EQ(diagnosis_of(inputs, one), "");
  runner::Outcome channel = sound;
  channel.outputs[Role::dgamma][3] += 1;
  EXPECT_EQ(diagnosis_of(inputs, channel), "");
  // Noise on everything.
  runner::Outcome noisy = sound;
  std::uint64_t index = 0;
  for (const Role role : {Role::dx, Role::dgamma, Role::dbeta})
    for (float& value : noisy.outputs[role]) {
      const float z = static_cast<float>(random_words(7, 1, index++).w[0]) * 0x1p-32F - 0.5F;
      value += value * z * 0x1p-6F;
    }
  EXPECT_EQ(diagnosis_of(inputs, noisy), "");
  // Two mistakes at once are neither of them.
  EXPECT_EQ(diagnosis_of({.dx = [](const Element& e) { return e.rstd * (e.dy * e.gamma - e.mean_of_g); },
                          .of_gamma = [](const Element& e) { return e.dy * e.x; }}),
            "");
  // Elements of one row after those of a missing term.
  runner::Outcome part = sound;
  const runner::Outcome without =
      run(problem_, inputs, {.dx = [](const Element& e) { return e.rstd * (e.dy * e.gamma - e.mean_of_g); }});
  for (std::size_t i = 20; i < 37; ++i) part.outputs[Role::dx][i] = without.outputs[Role::dx][i];
  EXPECT_EQ(diagnosis_of(inputs, part), "");
  // A cotangent that is another tensor's.
  Inputs other = inputs;
  std::rotate(other[Role::dy].begin(), other[Role::dy].begin() + 61, other[Role::dy].end());
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, other, {})), "");
}

TEST_F(BackwardDiagnosisTest, ResultsContradictOtherFormulas) {
  const Inputs inputs = make_inputs(problem_);
  const Subject subject{row_of(problem_.variant), problem_.phase, kernel_, problem_.convention};
  const runner::Outcome sound = run(problem_, inputs, {});
  EXPECT_TRUE(contradicts(problem_, inputs, subject, sound, "xhat term of dx missing"));
  EXPECT_TRUE(contradicts(problem_, inputs, subject, sound, "dgamma from x instead of xhat"));
  EXPECT_TRUE(contradicts(problem_, inputs, subject, sound, "normalizing divisor n-1; declared n"));
  const runner::Outcome other = run(problem_, inputs, {.divisor_less = 1});
  EXPECT_FALSE(contradicts(problem_, inputs, subject, other, "means of dx over n-1"));
}

}  // namespace
}  // namespace normgate
