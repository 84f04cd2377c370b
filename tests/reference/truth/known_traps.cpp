// Inputs on which released kernels went wrong, with the numbers that were reported as right: the truth must give them.
// Each line is named as in the collection of known kernel bugs. To add one: an entry, with the decimals that were
// stated; `wrong` is the number that the bug gave, where it was stated and the truth must keep away from.
#include <cmath>
#include <limits>

#include "support.hpp"

namespace normgate {
namespace {

constexpr double not_stated = std::numeric_limits<double>::quiet_NaN();

struct Trap {
  std::string_view name;
  std::string line;
  Role role;
  std::size_t index;
  double right;
  double last_decimal;  // of `right` as stated; 0: exact
  double wrong = not_stated;
};

std::string repeated(std::string_view value, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::string(value);
  return text;
}

// A running variance after a step with weight 1 is the batch's.
const std::string one_channel = "forward_training batch_norm g=1 k=1 s=1 gamma=0 beta=0 running=1 ";
const std::string row = "forward_training layer_norm n=1 g=1 s=1 ";
const std::string rms = "forward_training rms_norm n=1 g=1 s=1 ";
const std::string by_variance = "convention=pytorch,saved:variance saved=1 ";

std::string ramp_1449() {
  std::string values;
  for (int i = 0; i < 16; ++i)
    values += (i == 0 ? "" : ",") + shortest(static_cast<double>(1449.0F + static_cast<float>(i) / 15.0F));
  return values;
}

const std::vector<Trap>& traps() {
  static const std::vector<Trap> table{
      // variance-cancellation
      {"mlx-ln-1449", row + by_variance + "k=16 values=x:[" + ramp_1449() + "]", Role::stat, 0, 0.0944, 1e-4, -0.25},
      {"mps-ln-clamp-small-var, the variance",
       row + by_variance + "k=4 eps=1e-12 gamma=0 beta=0 values=x:[9.9e-4,-9.9e-4,9.9e-4,-9.9e-4]", Role::stat, 0,
       9.80e-7, 1e-9, 0},
      {"mps-ln-clamp-small-var", row + "k=4 eps=1e-12 gamma=0 beta=0 values=x:[9.9e-4,-9.9e-4,9.9e-4,-9.9e-4]", Role::y,
       0, 1.0, 1e-5, 990},
      {"ort-ln-const-row-nan",
       row + "k=256 gamma=0 values=x:[" + repeated("1234", 256) + "];beta:[" + repeated("0.3", 256) + "]", Role::y, 255,
       static_cast<double>(0.3F), 0},
      {"ort-ln-const-row-nan, the variance",
       row + by_variance + "k=256 gamma=0 beta=0 values=x:[" + repeated("1234", 256) + "]", Role::stat, 0, 0, 0, -3.25},
      {"ort-ln-mean-fp32",
       row + by_variance + "k=4096 gamma=0 beta=0 values=x:[" + repeated("10000000,10000001", 2048) + "]", Role::stat,
       0, 0.25, 0},
      {"theano-bn-onehot-nan", "forward_training batch_norm n=2 g=1 k=2 s=1 eps=1e-4 gamma=0 beta=0 values=x:[1,0,0,1]",
       Role::y, 0, 0.9998, 1e-4},
      {"theano-bn-onehot-nan, the other",
       "forward_training batch_norm n=2 g=1 k=2 s=1 eps=1e-4 gamma=0 beta=0 values=x:[1,0,0,1]", Role::y, 2, -0.9998,
       1e-4},
      {"trtllm-diff-of-squares",
       row + by_variance + "k=10240 gamma=0 beta=0 values=x:[" + repeated("256", 10239) + ",255]", Role::stat, 0,
       9.7647e-5, 1e-9, -0.00390625},
      {"xla-bn-16", row + by_variance + "k=4 gamma=0 beta=0 values=x:[10001,9999,10001,9999]", Role::stat, 0, 1, 0,
       -16},
      {"xpu-ln-1e15",
       row + "k=5 gamma=0 beta=0 "
             "values=x:[1000000000000000,1000000000000001,1000000000000002,1000000000000003,1000000000000004]",
       Role::y, 2, 0, 0},
      // biased-vs-unbiased
      {"caffe-m-over-m1", one_channel + "n=4 momentum=1 values=x:[9,11,9,11];running_mean:[0];running_var:[1]",
       Role::running_var, 0, 1.33, 1e-2, 34.7},
      {"keras-bn-bessel-n2, n-1", one_channel + "n=4 momentum=1 values=x:[1,2,3,4];running_mean:[0];running_var:[1]",
       Role::running_var, 0, 1.667, 1e-3, 1.25},
      {"keras-bn-bessel-n2, n",
       one_channel + "n=4 momentum=0 convention=keras values=x:[1,2,3,4];running_mean:[0];running_var:[1]",
       Role::running_var, 0, 1.25, 0, 1.667},
      {"keras-bn-bessel-n2, y of two", "forward_training batch_norm n=2 g=1 k=1 s=1 gamma=0 beta=0 values=x:[0,200]",
       Role::y, 1, 1.0, 1e-2, 0.47},
      {"onnx-bn-spec-variance, n",
       one_channel + "n=2 momentum=0 convention=onnx values=x:[0,2];running_mean:[7];"
                     "running_var:[9]",
       Role::running_var, 0, 1, 0, 2},
      {"onnx-bn-spec-variance, n-1",
       one_channel + "n=2 momentum=0 convention=onnx,stored:n_minus_1 values=x:[0,2];running_mean:[7];running_var:[9]",
       Role::running_var, 0, 2, 0, 1},
      {"torch-bn-bessel", one_channel + "n=4 momentum=0.1 values=x:[1,2,3,4];running_mean:[0];running_var:[1]",
       Role::running_var, 0, 1.0667, 1e-4, 1.025},
      {"torch-bn-bessel, biased",
       one_channel + "n=4 momentum=0.1 convention=pytorch,stored:n values=x:[1,2,3,4];running_mean:[0];running_var:[1]",
       Role::running_var, 0, 1.025, 1e-3, 1.0667},
      {"torch-bn-bessel, what normalizes", one_channel + by_variance + "n=4 values=x:[1,2,3,4]", Role::stat, 0, 1.25, 0,
       1.6667},
      // Variance 1 over 2 samples × 16 positions: n is 32.
      {"ngraph-n-batch",
       "forward_training batch_norm n=2 g=1 k=1 s=16 gamma=0 beta=0 running=1 momentum=1 values=x:[" +
           repeated("3,5", 16) + "];running_mean:[0];running_var:[0]",
       Role::running_var, 0, 1.032, 1e-3, 2.0},
      {"mlpack-eps-in-bessel",
       one_channel + "n=1 momentum=1 convention=tensorflow values=x:[5];running_mean:[0];running_var:[3]",
       Role::running_var, 0, 0, 0},
      {"trident-in-running-var",
       "forward_training instance_norm n=1 g=1 k=1 s=4 gamma=0 beta=0 running=1 momentum=1 "
       "values=x:[1,-1,1,-1];running_mean:[0];running_var:[0]",
       Role::running_var, 0, 1.3333, 1e-4, 1},
      // eps
      {"burn-ln-eps-outside",
       "forward_training layer_norm n=1 g=1 k=2 s=1 saved=1 values=x:[0.0031622777,-0.0031622777]", Role::stat, 0,
       223.6, 0.1, 315.2},
      {"burn-ln-eps-outside, outside",
       "forward_training layer_norm n=1 g=1 k=2 s=1 saved=1 convention=pytorch,eps:outside "
       "values=x:[0.0031622777,-0.0031622777]",
       Role::stat, 0, 315.2, 0.1, 223.6},
      {"cudnn-eps-min", row + "k=2 eps=1e-8 saved=1 values=x:[0.001,-0.001]", Role::stat, 0, 995, 1, 301},
      {"paddlelite-fold-eps",
       "forward_inference batch_norm n=1 g=1 k=1 s=1 eps=1e-3 given=running gamma=0 beta=0 "
       "values=x:[1];running_mean:[0];running_var:[1e-3]",
       Role::y, 0, 22.4, 0.1, 31.5},
      {"torch-rmsnorm-default-eps, bfloat16's", rms + "k=1 eps=7.8e-3 saved=1 values=x:[0.063245553]", Role::stat, 0,
       9.2, 0.1, 15.8},
      {"torch-rmsnorm-default-eps, none", rms + "k=1 eps=0 saved=1 values=x:[0.063245553]", Role::stat, 0, 15.8, 0.1,
       9.2},
      {"fastai-std-var", row + "k=2 eps=0 gamma=0 beta=0 values=x:[8,0]", Role::y, 0, 1, 0, 2},
      {"jax-stax-bn-squared", row + "k=2 eps=0 saved=1 values=x:[4,0]", Role::stat, 0, 0.5, 0, 0.25},
      {"syncbn-pytorch-clamp, added", row + "k=2 eps=1 saved=1 values=x:[1,-1]", Role::stat, 0, 0.70711, 1e-5, 1},
      {"syncbn-pytorch-clamp, clamped", row + "k=2 eps=1 saved=1 convention=pytorch,eps:floor values=x:[1,-1]",
       Role::stat, 0, 1, 0, 0.70711},
      {"ncnn-bn-eps",
       "forward_inference batch_norm n=1 g=1 k=1 s=1 eps=0.25 given=running gamma=0 beta=0 "
       "values=x:[3];running_mean:[1];running_var:[0]",
       Role::y, 0, 4, 0},
      {"coreml-rms-eps-scaled, a row of zeros", rms + "k=4 gamma=0 beta=0 values=x:[0,0,0,0]", Role::y, 3, 0, 0},
      {"coreml-rms-eps-scaled",
       rms + "k=1024 convention=tensorflow saved=1 eps=1e-3 gamma=0 beta=0 values=x:[1000," + repeated("0.1", 1023) +
           "]",
       Role::stat, 0, 976.57, 1e-2, 1976.6},
      // folding, constant rows, axes
      {"torch-ln-fold-14", row + "k=2 eps=1e-6 values=x:[14,14];gamma:[1,1];beta:[1,1]", Role::y, 0, 1, 0, 1.0001},
      {"caffe-const-channel",
       "forward_training batch_norm n=1 g=1 k=1 s=9 gamma=0 beta=0 values=x:[" + repeated("100", 9) + "]", Role::y, 8,
       0, 0, -0.0048},
      {"keras-rms-scaling-var", rms + "k=3 eps=0 gamma=0 beta=0 values=x:[3,3,3]", Role::y, 1, 1, 0},
      {"supernpu-seed", rms + "k=4 eps=0 gamma=0 beta=0 values=x:[0.5,0.5,0.5,0.5]", Role::y, 3, 1, 0, -1},
      // What is saved: the reciprocal standard deviation, not the variance nor its own reciprocal root.
      {"ort-invvariance", row + "k=2 eps=0 saved=1 values=x:[3,-1]", Role::stat, 0, 0.5, 0, 4},
      {"ttmlir-alias", row + "k=2 eps=0 gamma=0 beta=0 values=x:[2,-2]", Role::y, 0, 1, 0, 0.5},
      // running statistics
      {"paddle-momentum-swap",
       one_channel + "n=2 convention=keras momentum=0.9 values=x:[1,1];running_mean:[0];running_var:[0]",
       Role::running_mean, 0, 0.1, 1e-6, 0.9},
      {"torch7-avg-invstd",
       one_channel + "n=2 convention=keras momentum=0.5 values=x:[3,-3];running_mean:[0];running_var:[1]",
       Role::running_var, 0, 5, 0, 2.25},
      {"nntrainer-eps-in-moving-var",
       one_channel + "n=3 eps=1e-3 momentum=1 values=x:[7,7,7];running_mean:[0];running_var:[4]", Role::running_var, 0,
       0, 0, 1e-3},
      {"flaggems-in-recovered-var",
       "forward_training instance_norm n=1 g=1 k=1 s=4 eps=0.5 gamma=0 beta=0 running=1 momentum=1 "
       "convention=pytorch,stored:n values=x:[1,-1,1,-1];running_mean:[0];running_var:[0]",
       Role::running_var, 0, 1, 0, 2},
      {"caffe-scale-factor",
       "forward_inference batch_norm n=1 g=1 k=1 s=1 eps=0 given=running convention=caffe gamma=0 beta=0 "
       "values=x:[3];running_mean:[999.98];running_var:[3999.92];running_weight:[999.98]",
       Role::y, 0, 1, 1e-6},
      {"caffe-scale-factor, a factor of zero",
       "forward_inference batch_norm n=1 g=1 k=1 s=1 eps=0.25 given=running convention=caffe gamma=0 beta=0 "
       "values=x:[3];running_mean:[5];running_var:[9];running_weight:[0]",
       Role::y, 0, 6, 0},
  };
  return table;
}

TEST(KnownTraps, TheTruthIsWhatWasReportedAsRight) {
  for (const Trap& trap : traps()) {
    SCOPED_TRACE(trap.name);
    const Truth truth = truth_of(trap.line);
    const auto& values = truth.out[trap.role];
    ASSERT_GT(values.size(), trap.index);
    const Exact& exact = values[trap.index];
    EXPECT_NEAR(exact.hi, trap.right, trap.last_decimal / 2 * 1.02);
    if (trap.last_decimal == 0) {
      EXPECT_EQ(exact.lo, 0.0);
    }
    if (!std::isnan(trap.wrong)) {
      EXPECT_GT(std::fabs(exact.hi - trap.wrong), trap.last_decimal);
    }
  }
}

// torch-cpu-ln-2000, wrong rows had variances of 0.2 to 48425: the variance of y is v/(v+eps).
TEST(KnownTraps, FourFeaturesAroundTwoThousandHaveUnitVariance) {
  Problem problem =
      problem_of("forward_training layer_norm n=64 g=1 k=4 s=1 kappa=2000 gamma=0 beta=0 saved=1 key=0x51102");
  problem.convention.saved = SavedStatistic::variance;
  const Truth truth = truth_of(problem);
  for (std::size_t n = 0; n < 64; ++n) {
    double sum = 0;
    double squares = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const double y = truth.out[Role::y][4 * n + k].hi;
      sum += y;
      squares += y * y;
    }
    const double variance = truth.out[Role::stat][n].hi;
    EXPECT_NEAR(sum, 0, 1e-14);
    EXPECT_NEAR(squares / 4, variance / (variance + problem.eps), 1e-14);
  }
}

// mliraie-welford-axis: statistics down the columns would give ±1.
TEST(KnownTraps, RowsThatDifferByAConstantGiveEqualOutputs) {
  const auto y =
      truth_of("forward_training layer_norm n=2 g=1 k=3 s=1 gamma=0 beta=0 values=x:[0,1,2,10,11,12]").out[Role::y];
  expect_same({y.begin(), y.begin() + 3}, {y.begin() + 3, y.end()}, "rows");
  EXPECT_NEAR(y[0].hi, -std::sqrt(1.5), 1e-4);
  expect_exactly({y[1]}, {0});
}

// onnx-gn-scale-shape: gamma and beta belong to channels, not to groups.
TEST(KnownTraps, GroupNormHasAGammaPerChannel) {
  const std::string line = "forward_training group_norm n=1 g=2 k=2 s=2 eps=0 ";
  const auto y = truth_of(line + "values=x:[1,1,-1,-1,7,7,5,5];gamma:[2,3,4,5];beta:[10,20,30,40]").out[Role::y];
  expect_exactly(y, {12, 12, 17, 17, 34, 34, 35, 35});
}

// tensorrt-gn1: one group is not one group per channel.
TEST(KnownTraps, OneGroupIsNotInstanceNorm) {
  const std::string data = "n=1 g=1 k=2 s=2 eps=0 gamma=0 beta=0 values=x:[1,1,-1,-1]";
  expect_exactly(truth_of("forward_training group_norm " + data).out[Role::y], {1, 1, -1, -1});
  const std::string with_eps = "n=1 g=1 k=2 s=2 eps=1 gamma=0 beta=0 values=x:[1,1,-1,-1]";
  expect_exactly(truth_of("forward_training instance_norm " + with_eps).out[Role::y], {0, 0, 0, 0});
}

// ort-bn-train-y-momentum: y of a training step depends on neither momentum nor old state.
TEST(KnownTraps, TrainingOutputIgnoresMomentumAndOldState) {
  const std::string line = "forward_training batch_norm n=5 g=1 k=3 s=2 running=1 key=0x29790 ";
  Problem problem = problem_of(line + "momentum=0.9");
  const Inputs inputs = make_inputs(problem);
  const Truth first = definition_forward(problem, inputs);
  problem.momentum = 0.25;
  Inputs other = inputs;
  other[Role::running_mean] = {1, 2, 3};
  other[Role::running_var] = {4, 5, 6};
  const Truth second = definition_forward(problem, other);
  expect_same(first.out[Role::y], second.out[Role::y], "y");
  EXPECT_FALSE(same(first.out[Role::running_mean][0], second.out[Role::running_mean][0]));
}

}  // namespace
}  // namespace normgate
