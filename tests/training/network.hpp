// Ten layers of width 64 with ReLU between them, plain stochastic gradient descent, with or without a batch norm before
// each ReLU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/training/batch_norm.hpp"
#include "tests/training/digits.hpp"

namespace normgate::training {

class Network {
 public:
  static constexpr int layers = 10;
  static constexpr int width = 64;
  static constexpr float deviation = 0.05F;  // of the weights at the start
  static constexpr float rate = 0.05F;

  // Without a kernel nothing is normalized.
  Network(std::uint64_t key, std::shared_ptr<const Kernel> kernel);
  ~Network();

  // One step on a batch; its mean cross-entropy.
  double train(const float* images, const int* labels, int batch);
  // Logits, batch × classes, by the running statistics.
  [[nodiscard]] std::vector<float> evaluate(const float* images, int batch);
  // … by the statistics of the batch itself, as in training; nothing is updated.
  [[nodiscard]] std::vector<float> logits_in_training_mode(const float* images, int batch);
  [[nodiscard]] double accuracy(const Examples& examples);

  // Weights, biases, gammas and betas, and the running statistics.
  struct Checkpoint {
    std::vector<std::vector<float>> weights, biases;
    std::vector<BatchNorm::State> norms;
  };
  [[nodiscard]] Checkpoint save() const;
  void load(const Checkpoint& checkpoint);
  // As a checkpoint would that has parameters only: running statistics as at the start.
  void load_parameters_only(const Checkpoint& checkpoint);

 private:
  struct Layers;
  std::unique_ptr<Layers> layers_;
};

struct Epoch {
  double loss = 0;
  double training_accuracy = 0;
  double validation_accuracy = 0;
};
struct Settings {
  int examples = 1437;
  int validation = 360;
  int batch = 32;
  int epochs = 10;
};
// Trains on the examples in a new order in each epoch.
std::vector<Epoch> train(Network& network, std::uint64_t key, const Settings& settings);
[[nodiscard]] Examples validation_set(std::uint64_t key, const Settings& settings);

}  // namespace normgate::training
