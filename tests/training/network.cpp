#include "tests/training/network.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/problem/data.hpp"

namespace normgate::training {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::Matrix<float, 1, Eigen::Dynamic>;

// A sum of twelve uniform numbers, of variance 1: no libm, the same weights everywhere.
float normal_like(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  double sum = -6;
  for (std::uint64_t part = 0; part < 3; ++part)
    for (const std::uint32_t word : random_words(key, stream, 3 * index + part).w)
      sum += static_cast<double>(word) * 0x1p-32;
  return static_cast<float>(sum);
}

}  // namespace

struct Network::Layers {
  std::vector<Matrix> weights;  // in × out
  std::vector<Row> biases;
  std::vector<BatchNorm> norms;  // of all layers but the last; empty without
  // Of the last batch: what enters each layer, what leaves its weights, and what its norm made of that.
  std::vector<Matrix> entering, linear, normalized;

  enum class Mode { train, evaluate, look };
  Matrix forward(const Matrix& images, Mode mode) {
    entering.assign(static_cast<std::size_t>(layers), {});
    linear = normalized = entering;
    Matrix x = images;
    for (std::size_t l = 0; l < static_cast<std::size_t>(layers); ++l) {
      entering[l] = x;
      linear[l] = (x * weights[l]).rowwise() + biases[l];
      if (l + 1 == static_cast<std::size_t>(layers)) break;
      normalized[l] = linear[l];
      if (!norms.empty()) {
        const int batch = static_cast<int>(x.rows());
        if (mode == Mode::evaluate) {
          norms[l].evaluate(linear[l].data(), normalized[l].data(), batch);
        } else {
          const BatchNorm::State before = norms[l].state;
          norms[l].train(linear[l].data(), normalized[l].data(), batch);
          if (mode == Mode::look) norms[l].state = before;
        }
      }
      x = normalized[l].cwiseMax(0.0F);
    }
    return linear.back();
  }

  void backward(Matrix gradient) {
    for (std::size_t l = static_cast<std::size_t>(layers); l-- > 0;) {
      if (l + 1 < static_cast<std::size_t>(layers)) {
        gradient = (normalized[l].array() > 0.0F).select(gradient, 0.0F);
        if (!norms.empty()) {
          Matrix through(gradient.rows(), gradient.cols());
          norms[l].backward(linear[l].data(), gradient.data(), through.data(), static_cast<int>(gradient.rows()));
          norms[l].step(rate);
          gradient = through;
        }
      }
      const Matrix of_weights = entering[l].transpose() * gradient;
      const Row of_biases = gradient.colwise().sum();
      gradient = (gradient * weights[l].transpose()).eval();
      weights[l] -= rate * of_weights;
      biases[l] -= rate * of_biases;
    }
  }
};

Network::Network(std::uint64_t key, std::shared_ptr<const Kernel> kernel) : layers_(std::make_unique<Layers>()) {
  for (int l = 0; l < layers; ++l) {
    const int out = l + 1 == layers ? classes : width;
    Matrix weight(l == 0 ? pixels : width, out);
    for (Eigen::Index i = 0; i < weight.size(); ++i)
      weight.data()[i] =
          deviation * normal_like(key, 100 + static_cast<std::uint64_t>(l), static_cast<std::uint64_t>(i));
    layers_->weights.push_back(weight);
    layers_->biases.push_back(Row::Zero(out));
    if (kernel != nullptr && l + 1 < layers) layers_->norms.emplace_back(kernel, width);
  }
}
Network::~Network() = default;

double Network::train(const float* images, const int* labels, int batch) {
  const Matrix x = Eigen::Map<const Matrix>(images, batch, pixels);
  Matrix gradient = layers_->forward(x, Layers::Mode::train);
  double loss = 0;
  for (int i = 0; i < batch; ++i) {
    const float largest = gradient.row(i).maxCoeff();
    const Row exponentials = (gradient.row(i).array() - largest).exp();
    const float sum = exponentials.sum();
    loss -= std::log(static_cast<double>(exponentials[labels[i]] / sum)) / batch;
    gradient.row(i) = exponentials / (sum * static_cast<float>(batch));
    gradient(i, labels[i]) -= 1 / static_cast<float>(batch);
  }
  layers_->backward(std::move(gradient));
  return loss;
}

std::vector<float> Network::evaluate(const float* images, int batch) {
  const Matrix logits = layers_->forward(Eigen::Map<const Matrix>(images, batch, pixels), Layers::Mode::evaluate);
  return {logits.data(), logits.data() + logits.size()};
}

std::vector<float> Network::logits_in_training_mode(const float* images, int batch) {
  const Matrix logits = layers_->forward(Eigen::Map<const Matrix>(images, batch, pixels), Layers::Mode::look);
  return {logits.data(), logits.data() + logits.size()};
}

double Network::accuracy(const Examples& examples) {
  const std::vector<float> logits = evaluate(examples.images.data(), examples.count());
  int right = 0;
  for (int i = 0; i < examples.count(); ++i) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(i) * classes;
    right += std::max_element(first, first + classes) - first == examples.labels[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  return static_cast<double>(right) / examples.count();
}

Network::Checkpoint Network::save() const {
  Checkpoint checkpoint;
  for (const Matrix& weight : layers_->weights)
    checkpoint.weights.emplace_back(weight.data(), weight.data() + weight.size());
  for (const Row& bias : layers_->biases) checkpoint.biases.emplace_back(bias.data(), bias.data() + bias.size());
  for (const BatchNorm& norm : layers_->norms) checkpoint.norms.push_back(norm.state);
  return checkpoint;
}

void Network::load(const Checkpoint& checkpoint) {
  for (std::size_t l = 0; l < layers_->weights.size(); ++l) {
    std::copy(checkpoint.weights[l].begin(), checkpoint.weights[l].end(), layers_->weights[l].data());
    std::copy(checkpoint.biases[l].begin(), checkpoint.biases[l].end(), layers_->biases[l].data());
  }
  for (std::size_t l = 0; l < layers_->norms.size(); ++l) layers_->norms[l].state = checkpoint.norms[l];
}

void Network::load_parameters_only(const Checkpoint& checkpoint) {
  load(checkpoint);
  for (BatchNorm& norm : layers_->norms) {
    std::fill(norm.state.running_mean.begin(), norm.state.running_mean.end(), 0.0F);
    std::fill(norm.state.running_var.begin(), norm.state.running_var.end(), 1.0F);
  }
}

Examples validation_set(std::uint64_t key, const Settings& settings) {
  return digits(key, settings.examples, settings.validation);
}

std::vector<Epoch> train(Network& network, std::uint64_t key, const Settings& settings) {
  const Examples training = digits(key, 0, settings.examples);
  const Examples validation = validation_set(key, settings);
  std::vector<int> order(static_cast<std::size_t>(settings.examples));
  std::iota(order.begin(), order.end(), 0);
  std::vector<Epoch> epochs;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    for (std::size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[random_words(key, 200 + static_cast<std::uint64_t>(epoch), i).w[0] % (i + 1)]);
    Epoch result;
    const int batches = settings.examples / settings.batch;
    for (int b = 0; b < batches; ++b) {
      std::vector<float> images;
      std::vector<int> labels;
      for (int i = 0; i < settings.batch; ++i) {
        const auto example = static_cast<std::size_t>(order[static_cast<std::size_t>(b * settings.batch + i)]);
        const auto first = training.images.begin() + static_cast<std::ptrdiff_t>(example * pixels);
        images.insert(images.end(), first, first + pixels);
        labels.push_back(training.labels[example]);
      }
      result.loss += network.train(images.data(), labels.data(), settings.batch) / batches;
    }
    result.training_accuracy = network.accuracy(training);
    result.validation_accuracy = network.accuracy(validation);
    epochs.push_back(result);
  }
  return epochs;
}

}  // namespace normgate::training
