// A network that does not learn without normalization learns with the gated kernels: forward, backward and running
// statistics work together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/training/network.hpp"

namespace normgate::training {
namespace {

std::shared_ptr<const Kernel> kernel_of(const std::string& plugin, const std::string& name) {
  return std::make_shared<Kernel>(NORMGATE_PLUGINS "/normgate_" + plugin + ".so", name);
}

class TrainingOf : public testing::TestWithParam<std::uint64_t> {};

// Chance: the most frequent class of 360 examples has a tenth of them give or take; a share of 0.2 is more than six
// standard deviations away.
TEST_P(TrainingOf, StaysAtChanceWithoutNormalization) {
  Network network(GetParam(), nullptr);
  for (const Epoch& epoch : train(network, GetParam(), Settings{})) EXPECT_LT(epoch.validation_accuracy, 0.2);
}

TEST_P(TrainingOf, LearnsWithBatchNorm) {
  Network network(GetParam(), kernel_of("simd", "simd/batch_norm"));
  const std::vector<Epoch> epochs = train(network, GetParam(), Settings{});
  EXPECT_GT(epochs.back().validation_accuracy, 0.85);
  EXPECT_LT(epochs.back().loss, epochs.front().loss / 2);
}

INSTANTIATE_TEST_SUITE_P(Keys, TrainingOf, testing::Values(1, 2, 3));

TEST(Training, LearnsTheSameWithThePlainKernel) {
  Network network(1, kernel_of("plain", "plain/batch_norm"));
  EXPECT_GT(train(network, 1, Settings{}).back().validation_accuracy, 0.85);
}

class Trained : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    network_ = new Network(1, kernel_of("simd", "simd/batch_norm"));
    Settings settings;
    settings.epochs = 6;
    train(*network_, 1, settings);
    examples_ = new Examples(validation_set(1, settings));
  }
  static void TearDownTestSuite() {
    delete network_;
    delete examples_;
    network_ = nullptr;
    examples_ = nullptr;
  }
  static std::vector<float> first_row(const std::vector<float>& logits) {
    return {logits.begin(), logits.begin() + classes};
  }
  static Network* network_;
  static Examples* examples_;
};
Network* Trained::network_ = nullptr;
Examples* Trained::examples_ = nullptr;

// Evaluation uses the running statistics: an example's normalization does not depend on who is with it. (Eigen's
// matrix products may round otherwise for another number of rows.)
TEST_F(Trained, EvaluationDoesNotDependOnBatchMates) {
  const std::vector<float> alone = first_row(network_->evaluate(examples_->images.data(), 1));
  std::vector<float> with_others = examples_->images;
  const std::vector<float> first = first_row(network_->evaluate(with_others.data(), 64));
  // Other mates, the same number of them: the very same bits.
  std::reverse(with_others.begin() + pixels, with_others.begin() + 64 * pixels);
  EXPECT_EQ(first, first_row(network_->evaluate(with_others.data(), 64)));
  float largest = 0;
  for (const float logit : alone) largest = std::max(largest, std::fabs(logit));
  for (std::size_t c = 0; c < alone.size(); ++c) EXPECT_NEAR(alone[c], first[c], 1e-3F * largest);
}

TEST_F(Trained, TrainingModeDependsOnBatchMates) {
  std::vector<float> with_others = examples_->images;
  const std::vector<float> first = first_row(network_->logits_in_training_mode(with_others.data(), 64));
  std::copy(with_others.begin() + 64 * pixels, with_others.begin() + 127 * pixels, with_others.begin() + pixels);
  EXPECT_NE(first, first_row(network_->logits_in_training_mode(with_others.data(), 64)));
}

TEST_F(Trained, ACheckpointNeedsTheRunningStatistics) {
  const std::vector<float> before = network_->evaluate(examples_->images.data(), examples_->count());
  const Network::Checkpoint checkpoint = network_->save();
  Network restored(99, kernel_of("simd", "simd/batch_norm"));
  restored.load(checkpoint);
  EXPECT_EQ(before, restored.evaluate(examples_->images.data(), examples_->count()));
  EXPECT_GT(restored.accuracy(*examples_), 0.85);
  restored.load_parameters_only(checkpoint);
  EXPECT_NE(before, restored.evaluate(examples_->images.data(), examples_->count()));
  EXPECT_LT(restored.accuracy(*examples_), network_->accuracy(*examples_) - 0.2);
}

}  // namespace
}  // namespace normgate::training
