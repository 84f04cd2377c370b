// Ten layers of 64 ReLUs (the last one: a linear map to the classes) and plain stochastic gradient descent, with batch
// norm before each ReLU or without. The weights begin with standard deviation 0.05, so a layer scales what it is given
// by about 0.05 * sqrt(64 / 2) = 0.28, and its gradient likewise: without normalization 1e-5 of the image arrives at
// the last layer, and 1e-5 of the error at the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/training/batch_norm.hpp"
#include "tests/training/data.hpp"

namespace normgate::training {

inline constexpr std::size_t layers = 10;
inline constexpr std::size_t width = 64;
inline constexpr float weight_deviation = 0.05F;
inline constexpr float learning_rate = 0.05F;
inline constexpr std::size_t batch_size = 64;

struct Checkpoint {
  std::vector<float> parameters;  // weights, biases, gamma, beta
  std::vector<float> running;     // running means and variances
};

struct Epoch {
  double loss = 0;      // mean over the epoch's batches, while it learns
  double training = 0;  // accuracy over them
};

class Network {
 public:
  // Without a kernel: biases in place of batch norm.
  Network(const ng_kernel* batch_norm, std::uint64_t seed);

  // All examples once, in the order that seed and epoch give, in whole batches.
  Epoch train(const Examples& examples, std::uint64_t epoch);

  // Scores of the classes, example by example. In evaluation mode batch norm takes the running statistics.
  [[nodiscard]] std::vector<float> evaluate(const float* pixels, std::size_t examples);
  // In training mode it takes those of the batch; the running ones take them in, nothing is learned.
  [[nodiscard]] std::vector<float> score_as_in_training(const float* pixels, std::size_t examples);

  [[nodiscard]] Checkpoint checkpoint();
  void restore(const Checkpoint& checkpoint);
  void restore_parameters(const std::vector<float>& parameters);  // and forgets the running statistics

 private:
  struct Layer {
    std::size_t inputs = 0, outputs = 0;
    std::vector<float> weights;  // [inputs, outputs]
    std::vector<float> biases;
    std::optional<BatchNorm> norm;
    std::vector<float> x, z, normalized;  // of the last batch: input, x * weights, and what ReLU is given
  };

  std::vector<float> forward(const float* pixels, std::size_t examples, bool training);
  void step(std::vector<float> gradient, std::size_t examples);
  template <typename Visit>
  static void visit_parameters(Layer& layer, const Visit& visit);

  std::uint64_t seed_;
  std::vector<Layer> layers_;
};

[[nodiscard]] std::vector<int> predictions(const std::vector<float>& scores);
[[nodiscard]] double accuracy(Network& network, const Examples& examples);

}  // namespace normgate::training
