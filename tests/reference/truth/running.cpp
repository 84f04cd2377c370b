// Running statistics as a state machine. Most data are integers whose every state is a float32, so that a state can be
// handed on from step to step without a rounding and the demands are exact.
#include <cmath>

#include "support.hpp"

namespace normgate {
namespace {

// hi is a float32, and what is left is the reference's own doubt (1/step is rounded at 334 bits).
bool is_float(const Exact& value) {
  return std::fabs(value.lo) <= value.bound && static_cast<double>(static_cast<float>(value.hi)) == value.hi;
}

// Runs steps of batch_norm over one channel, handing the state on, and demands that each state is a float32.
class Machine {
 public:
  Machine(const std::string& convention, double momentum, float mean, float variance, float weight = 0) {
    problem_ = problem_of("forward_training batch_norm n=1 g=1 k=1 s=1 gamma=0 beta=0 running=1");
    const auto parsed = parse_convention(convention);
    EXPECT_TRUE(parsed.convention) << parsed.error;
    problem_.convention = parsed.convention.value_or(Convention{});
    problem_.momentum = momentum;
    problem_.values[Role::running_mean] = {mean};
    problem_.values[Role::running_var] = {variance};
    if (problem_.convention.momentum == MomentumForm::accumulated_weight)
      problem_.values[Role::running_weight] = {weight};
    problem_.step = 0;
  }
  void step(const std::vector<float>& batch) {
    ++problem_.step;
    problem_.shape[0] = static_cast<std::int64_t>(batch.size());
    problem_.values[Role::x] = batch;
    const Truth truth = truth_of(problem_);
    for (const Role role : {Role::running_mean, Role::running_var, Role::running_weight}) {
      if (truth.out[role].empty()) continue;
      EXPECT_TRUE(is_float(truth.out[role][0])) << name_of(role) << " " << truth.out[role][0].hi;
      problem_.values[role] = {static_cast<float>(truth.out[role][0].hi)};
    }
  }
  float mean() const { return problem_.values[Role::running_mean][0]; }
  float variance() const { return problem_.values[Role::running_var][0]; }
  float weight() const { return problem_.values[Role::running_weight][0]; }

 private:
  Problem problem_;
};

TEST(Running, MomentumWeighsTheNewOrTheOldValue) {
  // Batches of mean 8, variance 4 by n and 16/3 by n-1, so 3/16 of it is 1.
  const std::vector<float> batch{6, 10, 6, 10};
  Machine by_new("pytorch", 0.1875, 0, 0);
  by_new.step(batch);
  EXPECT_EQ(by_new.mean(), 1.5F);
  EXPECT_EQ(by_new.variance(), 1.0F);
  Machine by_old("keras", 0.75, 0, 0);
  by_old.step(batch);
  EXPECT_EQ(by_old.mean(), 2.0F);
  EXPECT_EQ(by_old.variance(), 1.0F);
  by_old.step(batch);
  EXPECT_EQ(by_old.mean(), 3.5F);
  EXPECT_EQ(by_old.variance(), 1.75F);
  Machine twice("pytorch,stored:n", 0.25, 0, 0);
  twice.step(batch);
  twice.step(batch);
  EXPECT_EQ(twice.mean(), by_old.mean());
  EXPECT_EQ(twice.variance(), by_old.variance());
}

TEST(Running, MomentumZeroAndOneAreTheEnds) {
  const std::vector<float> batch{6, 10, 6, 10};
  Machine keep("pytorch,stored:n", 0, 3, 7);
  keep.step(batch);
  EXPECT_EQ(keep.mean(), 3.0F);
  EXPECT_EQ(keep.variance(), 7.0F);
  Machine take("pytorch,stored:n", 1, 3, 7);
  take.step(batch);
  EXPECT_EQ(take.mean(), 8.0F);
  EXPECT_EQ(take.variance(), 4.0F);
}

// Means 1, 3, 5, … average to 1, 2, 3, …; the variance is 4 all along.
TEST(Running, TheCumulativeFormIsThePlainAverage) {
  Machine machine("pytorch,stored:n,momentum:cumulative", 0.5, 77, 77);
  for (int t = 1; t <= 12; ++t) {
    const float centre = static_cast<float>(2 * t - 1);
    machine.step({centre - 2, centre + 2});
    EXPECT_EQ(machine.mean(), static_cast<float>(t));
    EXPECT_EQ(machine.variance(), 4.0F) << t;
  }
}

TEST(Running, CumulativeVariancesAverageToo) {
  // Variances 1, 9, 49 average to 1, 5, 59/3; the last is no float32, so it is looked at but not handed on.
  Machine two("pytorch,stored:n,momentum:cumulative", 0.5, 0, 0);
  two.step({-1, 1});
  EXPECT_EQ(two.variance(), 1.0F);
  two.step({-3, 3});
  EXPECT_EQ(two.variance(), 5.0F);
  const Truth third = truth_of(
      "forward_training batch_norm n=2 g=1 k=1 s=1 gamma=0 beta=0 running=1 step=3 "
      "convention=pytorch,stored:n,momentum:cumulative values=x:[-7,7];running_mean:[0];running_var:[5]");
  const Exact& variance = third.out[Role::running_var][0];
  // hi + lo is 59/3 to 2^-105: thrice it leaves less than 2^-98 of 59.
  EXPECT_EQ(variance.hi, 59.0 / 3.0);
  EXPECT_EQ(std::fma(variance.hi, 3.0, -59.0) + 3 * variance.lo, 0.0);
}

TEST(Running, TheFirstCumulativeStepForgetsTheOldState) {
  Machine machine("pytorch,stored:n,momentum:cumulative", 0.5, 12345, 6789);
  machine.step({2, 4});
  EXPECT_EQ(machine.mean(), 3.0F);
  EXPECT_EQ(machine.variance(), 1.0F);
}

// Caffe: sums decay, the weight with them, and their ratio is the statistic.
TEST(Running, AnAccumulatedWeightDecaysWithItsSums) {
  Machine machine("caffe,stored:n", 0.5, 0, 0, 0);
  machine.step({2, 6});  // mean 4, variance 4
  EXPECT_EQ(machine.mean(), 4.0F);
  EXPECT_EQ(machine.variance(), 4.0F);
  EXPECT_EQ(machine.weight(), 1.0F);
  machine.step({9, 11});  // mean 10, variance 1
  EXPECT_EQ(machine.mean(), 0.5F * 4 + 10);
  EXPECT_EQ(machine.variance(), 0.5F * 4 + 1);
  EXPECT_EQ(machine.weight(), 1.5F);
  // Inference divides: mean 8, variance 2, and 2 + eps = 4.
  expect_exactly(truth_of("forward_inference batch_norm n=1 g=1 k=1 s=1 given=running convention=caffe eps=2 gamma=0 "
                          "beta=0 values=x:[14];running_mean:[12];running_var:[3];running_weight:[1.5]")
                     .out[Role::y],
                 {3});
}

TEST(Running, OneValueUnderNMinusOneIsTheConventionsBusiness) {
  const std::string single =
      "forward_training batch_norm n=1 g=1 k=1 s=1 gamma=0 beta=0 running=1 momentum=0.5 "
      "values=x:[6];running_mean:[2];running_var:[8] convention=";
  const auto state = [&](const std::string& convention) {
    const Truth truth = truth_of(single + convention);
    expect_exactly(truth.out[Role::running_mean], {4});
    return truth.out[Role::running_var][0].hi;
  };
  EXPECT_TRUE(std::isnan(state("pytorch")));
  EXPECT_EQ(state("pytorch,single:unchanged"), 8.0);
  EXPECT_EQ(state("pytorch,single:zero"), 4.0);
  // Under n a variance of one value is 0 and nothing is special.
  for (const std::string convention : {"pytorch,stored:n", "pytorch,stored:n,single:unchanged", "keras"})
    EXPECT_EQ(state(convention), 4.0) << convention;
}

TEST(Running, OneValueThatIsNormalizedWithNMinusOne) {
  const std::string line =
      "forward_training batch_norm n=1 g=1 k=1 s=1 eps=0.25 saved=1 values=x:[6];gamma:[2];beta:[3] convention=";
  EXPECT_TRUE(std::isnan(truth_of(line + "sample_variance").out[Role::y][0].hi));
  for (const std::string single : {"unchanged", "zero"}) {
    const Truth truth = truth_of(line + "sample_variance,single:" + single);
    expect_exactly(truth.out[Role::y], {3});
    expect_exactly(truth.out[Role::stat], {2});
  }
}

// Every form: the state that comes out is the state that went in, bit for bit, and nothing is NaN.
TEST(Running, AnEmptyBatchLeavesTheStateAsItIs) {
  for (const std::string form : {"new_weight", "old_weight", "cumulative", "accumulated_weight"})
    for (const std::string row : {"batch_norm n=0 g=2 k=2 s=3", "batch_norm n=3 g=2 k=2 s=0",
                                  "instance_norm n=0 g=2 k=2 s=3", "instance_norm n=3 g=2 k=2 s=0"}) {
      std::string line = "forward_training " + row + " running=1 step=5 convention=pytorch,momentum:" + form +
                         " values=running_mean:[0.1,-3e38,1e-45,-0];running_var:[0.3,7,0,3e38]";
      if (form == "accumulated_weight") line += ";running_weight:[0.7]";
      SCOPED_TRACE(line);
      const Problem problem = problem_of(line);
      const Truth truth = truth_of(problem);
      EXPECT_TRUE(truth.out[Role::y].empty());
      for (const Role role : {Role::running_mean, Role::running_var, Role::running_weight}) {
        ASSERT_EQ(truth.out[role].size(), problem.values[role].size());
        for (std::size_t c = 0; c < truth.out[role].size(); ++c) {
          EXPECT_EQ(std::bit_cast<std::uint64_t>(truth.out[role][c].hi),
                    std::bit_cast<std::uint64_t>(static_cast<double>(problem.values[role][c])));
          EXPECT_EQ(truth.out[role][c].lo, 0.0);
        }
      }
    }
}

// Channel c of instance_norm takes in the plain average over its samples of the mean and of the (unbiased) variance.
TEST(Running, InstanceNormAveragesOverTheSamples) {
  const std::string data =
      "forward_training instance_norm n=3 g=1 k=2 s=2 gamma=0 beta=0 running=1 momentum=0.5 "
      "values=x:[1,3,10,20,4,8,0,0,-2,0,-5,15];running_mean:[0,100];running_var:[2,4] convention=";
  // Channel 0: means 2, 6, -1, variances by n 1, 4, 1. Channel 1: means 15, 0, 5, variances 25, 0, 100.
  const Truth by_n = truth_of(data + "pytorch,stored:n");
  EXPECT_EQ(by_n.out[Role::running_mean][0].hi, 7.0 / 6.0);
  EXPECT_EQ(by_n.out[Role::running_var][0].hi, 2.0);
  EXPECT_EQ(by_n.out[Role::running_mean][1].hi, 50 + 20.0 / 6.0);
  EXPECT_EQ(by_n.out[Role::running_var][1].hi, 2 + 125.0 / 6.0);
  const Truth by_n_minus_1 = truth_of(data + "pytorch");
  EXPECT_EQ(by_n_minus_1.out[Role::running_var][0].hi, 1 + 2.0);
  EXPECT_EQ(by_n_minus_1.out[Role::running_var][1].hi, 2 + 125.0 / 3.0);
  // Not the statistics of the channel over all samples, which batch_norm has.
  const Truth batch = truth_of(
      "forward_training batch_norm n=3 g=1 k=2 s=2 gamma=0 beta=0 running=1 momentum=0.5 "
      "values=x:[1,3,10,20,4,8,0,0,-2,0,-5,15];running_mean:[0,100];running_var:[2,4] convention=pytorch,stored:n");
  EXPECT_EQ(batch.out[Role::running_mean][0].hi, by_n.out[Role::running_mean][0].hi);
  EXPECT_GT(batch.out[Role::running_var][0].hi, by_n.out[Role::running_var][0].hi + 4);
}

// The variance that is stored is the definition's whatever eps, gamma and the normalizing divisor are.
TEST(Running, NothingButTheStoredDivisorTouchesTheVariance) {
  for (const std::string convention : {"pytorch", "pytorch,normalizing:n_minus_1", "pytorch,eps:outside",
                                       "pytorch,eps:floor", "pytorch,gamma:plus_one", "pytorch,saved:variance"}) {
    const Truth truth = truth_of(
        "forward_training batch_norm n=4 g=1 k=1 s=1 eps=64 running=1 momentum=0.75 "
        "values=x:[6,10,6,10];gamma:[-3];beta:[5];running_mean:[4];running_var:[0] convention=" +
        convention);
    expect_exactly(truth.out[Role::running_var], {4});
    expect_exactly(truth.out[Role::running_mean], {7});
  }
}

}  // namespace
}  // namespace normgate
