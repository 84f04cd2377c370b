// Worked examples of introductory texts: what a reader will try first. The decimals are those that texts print.
#include <cmath>

#include "reference/bounds/forward.hpp"
#include "support.hpp"

namespace normgate {
namespace {

TEST(Textbook, ABatchOfTwoFourSixEight) {
  const std::string batch = "forward_training batch_norm n=4 g=1 k=1 s=1 eps=0 saved=1 ";
  const Truth plain = truth_of(batch + "convention=tensorflow gamma=0 beta=0 values=x:[2,4,6,8]");
  expect_exactly(plain.out[Role::mean], {5});
  expect_exactly(plain.out[Role::stat], {5});  // TensorFlow saves the variance
  expect_decimals(plain.out[Role::y], {-1.342, -0.447, 0.447, 1.342}, 1e-3);
  // Texts print -1.684 and 3.684, from x^ already rounded.
  expect_decimals(truth_of(batch + "values=x:[2,4,6,8];gamma:[2];beta:[1]").out[Role::y], {-1.683, 0.106, 1.894, 3.683},
                  1e-3);
  // With the usual eps the three decimals stay.
  expect_decimals(
      truth_of("forward_training batch_norm n=4 g=1 k=1 s=1 values=x:[2,4,6,8];gamma:[2];beta:[1]").out[Role::y],
      {-1.683, 0.106, 1.894, 3.683}, 1e-3);
}

TEST(Textbook, TwoColumnsNormalizeByThemselves) {
  const std::string batch = "forward_training batch_norm n=2 g=1 k=2 s=1 eps=0 ";
  expect_exactly(truth_of(batch + "gamma=0 beta=0 values=x:[2,10,4,14]").out[Role::y], {-1, -1, 1, 1});
  expect_exactly(truth_of(batch + "values=x:[2,10,4,14];gamma:[2,0.5];beta:[1,-1]").out[Role::y], {-1, -1.5, 3, -0.5});
}

TEST(Textbook, ABatchOfOneThreeFiveSeven) {
  expect_decimals(truth_of("forward_training batch_norm n=4 g=1 k=1 s=1 eps=0 values=x:[1,3,5,7];gamma:[0.5];beta:[-1]")
                      .out[Role::y],
                  {-1.671, -1.224, -0.776, -0.329}, 1e-3);
}

TEST(Textbook, InferenceOfEightAndATrainingStepOnIt) {
  expect_decimals(truth_of("forward_inference batch_norm n=1 g=1 k=1 s=1 given=running gamma=0 beta=0 "
                           "values=x:[8];running_mean:[5];running_var:[5]")
                      .out[Role::y],
                  {1.342}, 1e-3);
  // The batch is its own mean.
  expect_exactly(truth_of("forward_training batch_norm n=1 g=1 k=1 s=1 gamma=0 beta=0 values=x:[8]").out[Role::y], {0});
}

// gamma = sqrt(var+eps), beta = mean: exactly where both are representable, within gamma's rounding elsewhere.
TEST(Textbook, GammaAndBetaCanRestoreTheInput) {
  // variance 9, eps 7: gamma = 4
  expect_exactly(truth_of("forward_training batch_norm n=4 g=1 k=1 s=1 eps=7 values=x:[-1,5,5,-1];gamma:[4];beta:[2]")
                     .out[Role::y],
                 {-1, 5, 5, -1});
  Problem problem = problem_of("forward_training layer_norm n=1 g=1 k=6 s=1 saved=1 key=0x7");
  problem.convention.saved = SavedStatistic::variance;
  const Inputs inputs = make_inputs(problem);
  const Truth statistics = definition_forward(problem, inputs);
  const double deviation = std::sqrt(statistics.out[Role::stat][0].hi + problem.eps);
  problem.values[Role::x] = inputs[Role::x];
  problem.values[Role::gamma].assign(6, static_cast<float>(deviation));
  problem.values[Role::beta].assign(6, static_cast<float>(statistics.out[Role::mean][0].hi));
  const Truth restored = truth_of(problem);
  for (std::size_t i = 0; i < 6; ++i) {
    const double x = static_cast<double>(inputs[Role::x][i]);
    const double mean = statistics.out[Role::mean][0].hi;
    EXPECT_LE(std::fabs(restored.out[Role::y][i].hi - x), 0x1p-24 * 1.001 * (std::fabs(x - mean) + std::fabs(mean)));
  }
}

TEST(Textbook, TheTwoMomentaAreOneUpdateUnlessMixedUp) {
  const std::string step =
      "forward_training batch_norm n=4 g=1 k=1 s=1 running=1 gamma=0 beta=0 "
      "values=x:[2,4,6,8];running_mean:[1];running_var:[3] ";
  const Truth by_new = truth_of(step + "convention=pytorch,stored:n momentum=0.25");
  const Truth by_old = truth_of(step + "convention=keras momentum=0.75");
  expect_exactly(by_new.out[Role::running_mean], {0.75 * 1 + 0.25 * 5});
  expect_exactly(by_new.out[Role::running_var], {0.75 * 3 + 0.25 * 5});
  for (const Role role : {Role::running_mean, Role::running_var})
    expect_same(by_new.out[role], by_old.out[role], "running statistics");
  const Truth mixed_up = truth_of(step + "convention=keras momentum=0.25");
  expect_exactly(mixed_up.out[Role::running_mean], {0.25 * 1 + 0.75 * 5});
  expect_exactly(mixed_up.out[Role::running_var], {0.25 * 3 + 0.75 * 5});
  // 0.1 and 0.9 are no float32: the two forms differ by 2.2e-8 of the old value, and the reference shows it.
  const Truth tenth = truth_of(step + "convention=pytorch,stored:n momentum=0.1");
  const Truth nine_tenths = truth_of(step + "convention=keras momentum=0.9");
  const double difference = tenth.out[Role::running_var][0].hi - nine_tenths.out[Role::running_var][0].hi;
  const double weights = (1 - static_cast<double>(0.1F)) - static_cast<double>(0.9F);
  EXPECT_NEAR(difference, weights * (3 - 5), 1e-15);
  EXPECT_NEAR(weights, 2.2e-8, 0.05e-8);
}

// A layer of 32 rows and 100 columns that normalizes with n-1 is no rounding away from one that normalizes with n.
TEST(Textbook, NormalizingWithNMinusOneIsAConventionOfItsOwn) {
  Problem problem = problem_of("forward_training batch_norm n=32 g=1 k=100 s=1 eps=0 running=1 beta=0 key=0x20");
  const Inputs inputs = make_inputs(problem);
  const Truth by_n = definition_forward(problem, inputs);
  const Bounds bounds = forward_bounds(problem, inputs, by_n, Claim{});
  Problem sample = problem;
  sample.convention = *parse_convention("sample_variance").convention;
  EXPECT_EQ(print(sample.convention), "sample_variance");
  EXPECT_NE(print(problem.convention), print(sample.convention));
  const Truth by_n_minus_1 = definition_forward(sample, inputs);
  const double ratio = std::sqrt(31.0 / 32.0);
  std::size_t refuted = 0;
  for (std::size_t i = 0; i < 3200; ++i) {
    const double y = by_n.out[Role::y][i].hi;
    EXPECT_NEAR(by_n_minus_1.out[Role::y][i].hi, ratio * y, 1e-15 * std::fabs(y));
    refuted += std::fabs(by_n_minus_1.out[Role::y][i].hi - y) > bounds.tolerance[Role::y][i] ? 1 : 0;
  }
  EXPECT_GT(refuted, 2800U);  // all but those with a gamma or a deviation near 0
  // What they store is the same: PyTorch normalizes with n and stores n-1.
  expect_same(by_n.out[Role::running_var], by_n_minus_1.out[Role::running_var], "running_var");
}

// Running statistics find the true ones, and an example's inference is its own.
TEST(Textbook, TwoHundredStepsFindTheStatisticsAndInferenceIsForOneExample) {
  constexpr std::size_t channels = 3;
  constexpr std::size_t rows = 32;
  const std::vector<double> mean{-3, 0.5, 40};
  const std::vector<double> sigma{0.5, 2, 7};
  Problem step = problem_of("forward_training batch_norm n=32 g=1 k=3 s=1 running=1 gamma=0 beta=0 momentum=0.1");
  step.values[Role::running_mean].assign(channels, 0.0F);
  step.values[Role::running_var].assign(channels, 1.0F);
  step.values[Role::x].resize(rows * channels);
  Draw draw(200);
  for (int t = 0; t < 200; ++t) {
    for (std::size_t i = 0; i < rows * channels; ++i) {
      double z = -6;  // twelve uniform numbers: mean 0, variance 1
      for (int u = 0; u < 12; ++u) z += static_cast<double>(draw.word()) * 0x1p-32;
      step.values[Role::x][i] = static_cast<float>(mean[i % channels] + sigma[i % channels] * z);
    }
    const Truth truth = truth_of(step);
    for (const Role role : {Role::running_mean, Role::running_var})
      for (std::size_t c = 0; c < channels; ++c) step.values[role][c] = static_cast<float>(truth.out[role][c].hi);
  }
  // An average with weights 0.1·0.9^j over batches of 32 has a standard error of sqrt(0.1/1.9)/sqrt(32) = 0.041 sigma
  // in the mean and sqrt(0.1/1.9)·sqrt(2/31) = 0.058 sigma² in the variance; five of them are demanded.
  for (std::size_t c = 0; c < channels; ++c) {
    EXPECT_NEAR(static_cast<double>(step.values[Role::running_mean][c]), mean[c], 0.21 * sigma[c]);
    EXPECT_NEAR(static_cast<double>(step.values[Role::running_var][c]), sigma[c] * sigma[c],
                0.29 * sigma[c] * sigma[c]);
  }
  Problem alone = problem_of("forward_inference batch_norm n=1 g=1 k=3 s=1 given=running gamma=0 beta=0");
  Problem among = problem_of("forward_inference batch_norm n=4 g=1 k=3 s=1 given=running gamma=0 beta=0");
  for (const Role role : {Role::running_mean, Role::running_var})
    alone.values[role] = among.values[role] = step.values[role];
  alone.values[Role::x] = {-2, 1, 50};
  among.values[Role::x] = {9, 9, 9, -1e30F, 0, 1, -2, 1, 50, 7, 8, 9};
  const auto by_itself = truth_of(alone).out[Role::y];
  const auto in_batch = truth_of(among).out[Role::y];
  expect_same(by_itself, {in_batch.begin() + 6, in_batch.begin() + 9}, "y of the example");
  // A training step would have looked at them.
  Problem training = problem_of("forward_training batch_norm n=4 g=1 k=3 s=1 gamma=0 beta=0");
  training.values[Role::x] = among.values[Role::x];
  const auto trained = truth_of(training).out[Role::y];
  for (std::size_t c = 0; c < channels; ++c) EXPECT_GT(std::fabs(trained[6 + c].hi - by_itself[c].hi), 0.01);
}

}  // namespace
}  // namespace normgate
