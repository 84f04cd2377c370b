// Mistakes are made here, in plain float code, and the diagnosis must name them; sound results get none.
#include "gate/engine/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

// A float two-pass kernel with places to go wrong.
struct Mistakes {
  std::function<void(std::vector<float>& mean, std::vector<float>& variance)> statistics = [](auto&, auto&) {};
  std::function<float(float)> root = [](float radicand) { return 1 / std::sqrt(radicand); };
  std::function<float(float)> eps = [](float given) { return given; };
  std::function<float(float)> gamma = [](float given) { return given; };
  std::function<float(float)> beta = [](float given) { return given; };
  std::int64_t lost = 0;  // elements at the end of a group that the statistics miss
  bool one_pass = false;
  float divisor_less = 0;
};

float to_bfloat16(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(mantissa * 256) / 256, exponent);
}

runner::Outcome run(const Problem& problem, const Inputs& inputs, const Mistakes& mistakes) {
  const VariantRow& row = row_of(problem.variant);
  const Groups groups(problem.shape, row);
  const auto count = static_cast<std::size_t>(groups.count());
  std::vector<float> means(count);
  std::vector<float> variances(count);
  const auto n = static_cast<float>(groups.size());
  for (std::size_t group = 0; group < count; ++group) {
    float sum = 0;
    float squares = 0;
    std::int64_t position = 0;
    const auto each = [&](auto&& visit) {
      position = 0;
      groups.for_each(static_cast<std::int64_t>(group), [&](std::int64_t i, const Shape&) {
        if (position++ < groups.size() - mistakes.lost) visit(inputs[Role::x][static_cast<std::size_t>(i)]);
      });
    };
    each([&](float x) { sum += x; });
    const float mean = row.centred ? sum / n : 0;
    if (mistakes.one_pass) {
      each([&](float x) { squares += x * x; });
      squares = squares - n * mean * mean;
    } else {
      each([&](float x) { squares += (x - mean) * (x - mean); });
    }
    means[group] = mean;
    variances[group] = squares / (n - mistakes.divisor_less);
  }
  mistakes.statistics(means, variances);
  runner::Outcome outcome;
  outcome.outputs[Role::y].resize(inputs[Role::x].size());
  for (std::size_t group = 0; group < count; ++group) {
    const float factor = mistakes.root(variances[group] + mistakes.eps(static_cast<float>(problem.eps)));
    groups.for_each(static_cast<std::int64_t>(group), [&](std::int64_t i, const Shape& at) {
      const auto c = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
      const float gamma = mistakes.gamma(inputs[Role::gamma][c]);
      const float beta = mistakes.beta(inputs[Role::beta][c]);
      const float x = inputs[Role::x][static_cast<std::size_t>(i)];
      outcome.outputs[Role::y][static_cast<std::size_t>(i)] = (x - means[group]) * factor * gamma + beta;
    });
  }
  return outcome;
}

class DiagnosisTest : public testing::Test {
 protected:
  DiagnosisTest() {
    problem_.shape = {3, 1, 61, 1};
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
    return explanation ? explanation->diagnosis : "";
  }
  Problem problem_;
  runner::KernelInfo kernel_;
};

TEST_F(DiagnosisTest, SoundResultsAreNotExplained) {
  for (const double kappa : {1.0, 100.0, 1e4}) {
    problem_.kappa = kappa;
    EXPECT_EQ(diagnosis_of({}), "") << kappa;
  }
}

TEST_F(DiagnosisTest, Parameters) {
  // Where the variance is above eps, a floor is the same; both are said.
  EXPECT_EQ(diagnosis_of({.eps = [](float) { return 0.0F; }}),
            "eps a floor below the variance; declared inside, or eps ignored");
  EXPECT_EQ(diagnosis_of({.eps = [](float given) { return 2 * given; }}), "twice eps");
  EXPECT_EQ(diagnosis_of({.eps = [](float) { return 1e-5F; }}), "eps 1e-5 whatever is given");
  EXPECT_EQ(diagnosis_of({.gamma = [](float) { return 1.0F; }}), "gamma ignored");
  EXPECT_EQ(diagnosis_of({.beta = [](float) { return 0.0F; }}), "beta ignored");
  EXPECT_EQ(diagnosis_of({.gamma = [](float value) { return std::fabs(value); }}), "absolute value of gamma");
  EXPECT_EQ(diagnosis_of({.gamma = to_bfloat16}), "gamma rounded to bfloat16");
}

TEST_F(DiagnosisTest, Conventions) {
  EXPECT_EQ(diagnosis_of({.divisor_less = 1}), "normalizing divisor n-1; declared n");
  EXPECT_EQ(diagnosis_of({.gamma = [](float value) { return 1 + value; }}), "gamma is 1+w; declared w");
  Mistakes outside;
  outside.eps = [](float) { return 0.0F; };
  outside.root = [&](float radicand) { return 1 / (std::sqrt(radicand) + static_cast<float>(problem_.eps)); };
  EXPECT_EQ(diagnosis_of(outside), "eps outside the root; declared inside");
}

TEST_F(DiagnosisTest, Statistics) {
  EXPECT_EQ(diagnosis_of({.lost = 61 % 8}), "tail left out of the statistics");
  Mistakes neighbour;
  neighbour.statistics = [](auto& mean, auto& variance) {
    std::rotate(mean.begin(), mean.begin() + 1, mean.end());
    std::rotate(variance.begin(), variance.begin() + 1, variance.end());
    mean.back() = mean.front();
    variance.back() = variance.front();
  };
  EXPECT_EQ(diagnosis_of(neighbour), "statistics of the neighbouring group");
  Mistakes first;
  first.statistics = [](auto& mean, auto& variance) {
    std::fill(mean.begin(), mean.end(), mean.front());
    std::fill(variance.begin(), variance.end(), variance.front());
  };
  EXPECT_EQ(diagnosis_of(first), "statistics of the first group");
  Mistakes uncentred;
  uncentred.statistics = [](auto& mean, auto& variance) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      variance[i] += mean[i] * mean[i];
      mean[i] = 0;
    }
  };
  EXPECT_EQ(diagnosis_of(uncentred), "mean not subtracted");
}

TEST_F(DiagnosisTest, Algorithms) {
  problem_.kappa = 3000;
  EXPECT_EQ(diagnosis_of({.one_pass = true}), "one-pass variance");
  problem_.kappa = 100;
  EXPECT_EQ(diagnosis_of({.one_pass = true}), "one-pass variance");
  problem_.kappa = 1;
  Mistakes estimate;
  estimate.root = [](float radicand) {
    const float seed = std::bit_cast<float>(0x5F3759DFU - (std::bit_cast<std::uint32_t>(radicand) >> 1U));
    return seed * (1.5F - 0.5F * radicand * seed * seed);
  };
  EXPECT_EQ(diagnosis_of(estimate), "approximate reciprocal root");
}

// What is seen is said, and nothing about how it came about; of a part of the elements not even that.
TEST_F(DiagnosisTest, GainPerGroup) {
  Mistakes gain;
  gain.root = [](float radicand) { return 1 / std::sqrt(radicand) * (1 + 0x1p-10F); };
  EXPECT_EQ(diagnosis_of(gain), "gain per group");
  const Inputs inputs = make_inputs(problem_);
  const runner::Outcome sound = run(problem_, inputs, {});
  runner::Outcome part = run(problem_, inputs, gain);
  for (std::size_t i = 0; i < 20; ++i) part.outputs[Role::y][i] = sound.outputs[Role::y][i];
  EXPECT_EQ(diagnosis_of(inputs, part), "");
  // Every error of a single value is a gain.
  problem_.shape = {3, 1, 2, 1};
  EXPECT_EQ(diagnosis_of(gain), "");
}

TEST_F(DiagnosisTest, OneWrongElementAmongRightOnesIsNoConvention) {
  const Inputs inputs = make_inputs(problem_);
  runner::Outcome outcome = run(problem_, inputs, {});
  const runner::Outcome without = run(problem_, inputs, {.beta = [](float) { return 0.0F; }});
  for (std::size_t i = 56; i < 61; ++i) outcome.outputs[Role::y][i] = without.outputs[Role::y][i];
  EXPECT_EQ(diagnosis_of(inputs, outcome), "");
}

TEST_F(DiagnosisTest, SubnormalsAreFlushedOnlyIfZero) {
  Inputs inputs = make_inputs(problem_);
  for (float& value : inputs[Role::gamma]) value = 0x1p-135F;
  for (float& value : inputs[Role::beta]) value = 0;
  runner::Outcome zero = run(problem_, inputs, {});
  runner::Outcome off = zero;
  for (float& value : zero.outputs[Role::y]) value = 0;
  for (float& value : off.outputs[Role::y]) value *= 1.25F;
  EXPECT_EQ(diagnosis_of(inputs, zero, "flushed subnormals"), "flushed subnormals");
  EXPECT_EQ(diagnosis_of(inputs, off, "flushed subnormals"), "");
}

TEST_F(DiagnosisTest, PartsOfStatistics) {
  problem_.shape = {3, 1, 300, 1};
  problem_.kappa = 0;
  Mistakes parts;
  const Inputs inputs = make_inputs(problem_);
  parts.statistics = [&](std::vector<float>&, std::vector<float>& variance) {
    for (std::size_t g = 0; g < variance.size(); ++g) {
      double squares = 0;
      for (std::size_t begin = 0; begin < 300; begin += 64) {
        const std::size_t end = std::min<std::size_t>(300, begin + 64);
        double sum = 0;
        for (std::size_t i = begin; i < end; ++i) sum += static_cast<double>(inputs[Role::x][300 * g + i]);
        for (std::size_t i = begin; i < end; ++i) {
          const double d = static_cast<double>(inputs[Role::x][300 * g + i]) - sum / static_cast<double>(end - begin);
          squares += d * d;
        }
      }
      variance[g] = static_cast<float>(squares / 300);
    }
  };
  EXPECT_EQ(diagnosis_of(parts), "parts merged without the difference of their means");
}

TEST_F(DiagnosisTest, ResultsContradictOtherConventions) {
  const Inputs inputs = make_inputs(problem_);
  const Subject subject{row_of(problem_.variant), problem_.phase, kernel_, problem_.convention};
  const runner::Outcome sound = run(problem_, inputs, {});
  EXPECT_TRUE(contradicts(problem_, inputs, subject, sound, "eps ignored"));
  EXPECT_TRUE(contradicts(problem_, inputs, subject, sound, "normalizing divisor n-1; declared n"));
  const runner::Outcome other = run(problem_, inputs, {.divisor_less = 1});
  EXPECT_FALSE(contradicts(problem_, inputs, subject, other, "normalizing divisor n-1; declared n"));
}

// In float32 the folded form is no worse than a mean rounded to float32; in a kernel that claims double statistics it
// is.
TEST_F(DiagnosisTest, FoldedForm) {
  kernel_.claim.accumulator = ScalarType::float64;
  kernel_.claim.statistics = ScalarType::float64;
  problem_.kappa = 1e4;
  const Inputs inputs = make_inputs(problem_);
  const Truth truth = forward_truth(problem_, inputs);
  runner::Outcome outcome;
  for (std::size_t i = 0; i < inputs[Role::x].size(); ++i) {
    const GroupTruth& group = truth.groups[i / 61];
    const auto a = static_cast<float>(group.rstd.hi * static_cast<double>(inputs[Role::gamma][i % 61]));
    const auto b =
        static_cast<float>(static_cast<double>(inputs[Role::beta][i % 61]) - group.mean.hi * static_cast<double>(a));
    const float product = inputs[Role::x][i] * a;
    outcome.outputs[Role::y].push_back(product + b);
  }
  EXPECT_EQ(diagnosis_of(inputs, outcome), "folded form");
}

TEST_F(DiagnosisTest, UnwrittenZeroAndLostElements) {
  const Inputs inputs = make_inputs(problem_);
  runner::Outcome outcome = run(problem_, inputs, {});
  runner::Outcome zero = outcome;
  std::fill(zero.outputs[Role::y].begin(), zero.outputs[Role::y].end(), 0.0F);
  EXPECT_EQ(diagnosis_of(inputs, zero), "all outputs zero");
  runner::Outcome lost = outcome;
  for (std::size_t i = 0; i < 5; ++i)
    *(lost.outputs[Role::y].end() - 1 - static_cast<std::ptrdiff_t>(i)) =
        *(inputs[Role::x].end() - 1 - static_cast<std::ptrdiff_t>(i));
  EXPECT_EQ(diagnosis_of(inputs, lost), "tail not normalized");
  runner::Outcome unwritten = outcome;
  unwritten.outputs[Role::y].back() = std::nanf("");
  unwritten.findings.push_back({runner::FindingKind::unwritten, Role::y, 0, "y was not written"});
  EXPECT_EQ(diagnosis_of(inputs, unwritten), "unwritten output");
}

TEST_F(DiagnosisTest, OneHypothesisCanBeAskedFor) {
  EXPECT_EQ(diagnosis_of({.divisor_less = 1}, "normalizing divisor n-1; declared n"),
            "normalizing divisor n-1; declared n");
  EXPECT_EQ(diagnosis_of({.divisor_less = 1}, "eps ignored"), "");
}

}  // namespace
}  // namespace normgate
