// Mistakes are made here, in plain float code, and the diagnosis must name them; sound results get none.
#include "gate/engine/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

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

// Wrong sums, as lists of what goes into them: each value as often as it is summed, and the divisor.
struct Summed {
  std::vector<float> values;
  float divisor = 0;
};
Mistakes with_sums(const Inputs& inputs, const std::function<Summed(const std::vector<float>& row)>& summed) {
  Mistakes mistakes;
  mistakes.statistics = [&inputs, summed](std::vector<float>& mean, std::vector<float>& variance) {
    const std::size_t n = inputs[Role::x].size() / mean.size();
    for (std::size_t g = 0; g < mean.size(); ++g) {
      const auto begin = inputs[Role::x].begin() + static_cast<std::ptrdiff_t>(g * n);
      const Summed sums = summed(std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(n)));
      double sum = 0;
      for (const float value : sums.values) sum += static_cast<double>(value);
      mean[g] = static_cast<float>(sum / static_cast<double>(sums.divisor));
      double squares = 0;
      for (const float value : sums.values) squares += std::pow(static_cast<double>(value - mean[g]), 2.0);
      variance[g] = static_cast<float>(squares / static_cast<double>(sums.divisor));
    }
  };
  return mistakes;
}

TEST_F(DiagnosisTest, ElementsCountedTwiceAndPadding) {
  problem_.kappa = 3;
  const Inputs inputs = make_inputs(problem_);
  // The last vector of 16 begins 3 elements before the tail of 13.
  for (const float counted : {61.0F, 64.0F}) {
    const Mistakes twice = with_sums(inputs, [counted](std::vector<float> row) {
      for (std::size_t i = 45; i < 48; ++i) row.push_back(row[i]);
      return Summed{std::move(row), counted};
    });
    EXPECT_EQ(diagnosis_of(inputs, run(problem_, inputs, twice)), "elements counted twice in the statistics")
        << counted;
  }
  const Mistakes zeros = with_sums(inputs, [](std::vector<float> row) {
    row.resize(64);
    return Summed{std::move(row), 64};
  });
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, inputs, zeros)), "padding counted in the statistics");
}

TEST_F(DiagnosisTest, Divisors) {
  // 61 and one more are a padded length as well.
  EXPECT_EQ(diagnosis_of({.divisor_less = -1}), "padding counted in the statistics, or variance over n+1");
  problem_.shape = {3, 1, 60, 1};
  EXPECT_EQ(diagnosis_of({.divisor_less = -1}), "variance over n+1");
  EXPECT_EQ(diagnosis_of({.divisor_less = 59}), "sum of squares not divided");
  problem_.variant = Variant::rms_norm;
  EXPECT_EQ(diagnosis_of({.divisor_less = 1}), "mean square over n-1");
}

TEST_F(DiagnosisTest, SumsInAShortType) {
  const Inputs inputs = make_inputs(problem_);
  Mistakes sums;
  sums.statistics = [&inputs](std::vector<float>& mean, std::vector<float>& variance) {
    for (std::size_t g = 0; g < mean.size(); ++g) {
      float sum = 0;
      float squares = 0;
      for (std::size_t i = 0; i < 61; ++i) sum = to_bfloat16(sum + inputs[Role::x][61 * g + i]);
      mean[g] = sum / 61;
      for (std::size_t i = 0; i < 61; ++i) {
        const float d = inputs[Role::x][61 * g + i] - mean[g];
        squares = to_bfloat16(squares + d * d);
      }
      variance[g] = squares / 61;
    }
  };
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, inputs, sums)), "sums in bfloat16");
}

TEST_F(DiagnosisTest, EpsMixedUpWithAClamp) {
  // Above eps nothing is wrong.
  problem_.eps = 2;
  const auto clamped = [this](float radicand) {
    const auto eps = static_cast<float>(problem_.eps);
    return 1 / std::sqrt(std::max(radicand - eps, eps) + eps);
  };
  EXPECT_EQ(diagnosis_of({.root = clamped}), "eps added to a variance of at least eps");
  problem_.eps = 0.25;
  EXPECT_EQ(diagnosis_of({.root = clamped}), "");
  EXPECT_EQ(diagnosis_of({.eps = [](float) { return 1.0F; }}), "eps 1 whatever is given");
}

// y of groups down the columns.
TEST_F(DiagnosisTest, StatisticsOverOtherAxes) {
  problem_.shape = {5, 1, 7, 1};
  const Inputs inputs = make_inputs(problem_);
  runner::Outcome outcome;
  outcome.outputs[Role::y].resize(35);
  for (std::size_t k = 0; k < 7; ++k) {
    double sum = 0;
    double squares = 0;
    for (std::size_t n = 0; n < 5; ++n) sum += static_cast<double>(inputs[Role::x][7 * n + k]);
    const double mean = sum / 5;
    for (std::size_t n = 0; n < 5; ++n) squares += std::pow(static_cast<double>(inputs[Role::x][7 * n + k]) - mean, 2);
    const double factor = 1 / std::sqrt(squares / 5 + problem_.eps);
    for (std::size_t n = 0; n < 5; ++n)
      outcome.outputs[Role::y][7 * n + k] =
          static_cast<float>((static_cast<double>(inputs[Role::x][7 * n + k]) - mean) * factor *
                                 static_cast<double>(inputs[Role::gamma][k]) +
                             static_cast<double>(inputs[Role::beta][k]));
  }
  EXPECT_EQ(diagnosis_of(inputs, outcome), "statistics over other axes");
}

TEST_F(DiagnosisTest, ParametersOfOtherChannels) {
  const Inputs inputs = make_inputs(problem_);
  const auto taken_from = [&](const std::function<std::size_t(std::size_t)>& from) {
    Inputs other = inputs;
    for (std::size_t c = 0; c < 61; ++c) other[Role::gamma][c] = inputs[Role::gamma][from(c)];
    return diagnosis_of(inputs, run(problem_, other, {}));
  };
  EXPECT_EQ(taken_from([](std::size_t) { return std::size_t{0}; }), "parameters of the first channel");
  EXPECT_EQ(taken_from([](std::size_t c) { return c - c % 2; }), "parameters of the channel before");
  EXPECT_EQ(taken_from([](std::size_t c) { return std::min<std::size_t>(c + 1, 60); }),
            "parameters of the channel behind");
  // No such order.
  EXPECT_EQ(taken_from([](std::size_t c) { return c * 17 % 61; }), "");
  Inputs swapped = inputs;
  std::swap(swapped[Role::gamma], swapped[Role::beta]);
  EXPECT_EQ(diagnosis_of(inputs, run(problem_, swapped, {})), "gamma and beta swapped");
}

TEST_F(DiagnosisTest, SwappedAndClippedElements) {
  Inputs inputs = make_inputs(problem_);
  // No pair of which one is right by accident.
  std::fill(inputs[Role::gamma].begin(), inputs[Role::gamma].end(), 2.0F);
  runner::Outcome swapped = run(problem_, inputs, {});
  for (const std::size_t first : {3UL, 40UL, 70UL}) {
    Inputs other = inputs;
    std::swap(other[Role::x][first], other[Role::x][first + 1]);
    const runner::Outcome moved = run(problem_, other, {});
    for (const std::size_t i : {first, first + 1}) swapped.outputs[Role::y][i] = moved.outputs[Role::y][i];
  }
  EXPECT_EQ(diagnosis_of(inputs, swapped), "elements swapped");
  problem_.profile = Profile::needle;
  problem_.kappa = 1000;
  problem_.shape = {5, 1, 61, 1};
  const Inputs needles = make_inputs(problem_);
  runner::Outcome clipped = run(problem_, needles, {});
  const Truth truth = forward_truth(problem_, needles);
  for (std::size_t i = 0; i < clipped.outputs[Role::y].size(); ++i) {
    const GroupTruth& group = truth.groups[i / 61];
    const double xhat = (static_cast<double>(needles[Role::x][i]) - group.mean.hi) * group.rstd.hi;
    const double held = std::clamp(xhat, -5.0, 5.0);
    if (held != xhat)
      clipped.outputs[Role::y][i] = static_cast<float>(held * static_cast<double>(needles[Role::gamma][i % 61]) +
                                                       static_cast<double>(needles[Role::beta][i % 61]));
  }
  EXPECT_EQ(diagnosis_of(needles, clipped), "normalized value clipped");
}

// A gain of y alone is not the saved statistic's.
TEST_F(DiagnosisTest, OnePassVarianceIsWrongInWhatIsSavedToo) {
  problem_.kappa = 3000;
  problem_.saved = true;
  const Inputs inputs = make_inputs(problem_);
  const Truth truth = forward_truth(problem_, inputs);
  runner::Outcome outcome = run(
      problem_, inputs, {.gamma = [](float value) { return 1.5F * value; }, .beta = [](float value) { return value; }});
  for (const GroupTruth& group : truth.groups) {
    outcome.outputs[Role::mean].push_back(static_cast<float>(group.mean.hi));
    outcome.outputs[Role::stat].push_back(static_cast<float>(group.rstd.hi));
  }
  EXPECT_EQ(diagnosis_of(inputs, outcome, "one-pass variance"), "");
  std::swap(outcome.outputs[Role::mean], outcome.outputs[Role::stat]);
  outcome.outputs[Role::y] = run(problem_, inputs, {}).outputs[Role::y];
  EXPECT_EQ(diagnosis_of(inputs, outcome), "mean and stat swapped");
}

TEST_F(DiagnosisTest, OneHypothesisCanBeAskedFor) {
  EXPECT_EQ(diagnosis_of({.divisor_less = 1}, "normalizing divisor n-1; declared n"),
            "normalizing divisor n-1; declared n");
  EXPECT_EQ(diagnosis_of({.divisor_less = 1}, "eps ignored"), "");
}

}  // namespace
}  // namespace normgate
