#include "tests/training/network.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "reference/problem/data.hpp"

namespace normgate::training {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<Matrix>;
using ConstView = Eigen::Map<const Matrix>;

ConstView view(const float* values, std::size_t rows, std::size_t columns) {
  return {values, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns)};
}
View view(std::vector<float>& values, std::size_t rows, std::size_t columns) {
  return {values.data(), static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns)};
}

// Streams of random words: weights of a layer, then orders of an epoch.
constexpr std::uint64_t order_stream = 1000;

// Close to a normal distribution of deviation 1: twelve uniform numbers less their mean, exact without a mathematical
// library.
float deviate(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  std::int64_t sum = 0;
  for (std::uint64_t part = 0; part < 3; ++part)
    for (const std::uint32_t word : random_words(seed, stream, 3 * index + part).w) sum += word >> 8U;
  return static_cast<float>(sum - 6 * (std::int64_t{1} << 24U)) / static_cast<float>(1 << 24U);
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = count; left > 1; --left)
    std::swap(order[left - 1], order[random_words(seed, stream, left).w[0] % left]);
  return order;
}

// Makes scores the gradient of the mean of -log softmax(scores)[label]; returns the sum of these losses.
double differentiate_loss(std::vector<float>& scores, const std::vector<int>& labels) {
  const std::size_t classes = scores.size() / labels.size();
  double loss = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    float* row = &scores[i * classes];
    const float largest = *std::max_element(row, row + classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    loss += static_cast<double>(largest) - static_cast<double>(row[label]);
    float sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += row[c] = std::exp(row[c] - largest);
    loss += std::log(static_cast<double>(sum));
    for (std::size_t c = 0; c < classes; ++c)
      row[c] = (row[c] / sum - (c == label ? 1.0F : 0.0F)) / static_cast<float>(labels.size());
  }
  return loss;
}

void descend(std::vector<float>& parameters, const std::vector<float>& gradients) {
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= learning_rate * gradients[i];
}

}  // namespace

// ---- construction --------------------------------------------------------------------------------------------------

Network::Network(const ng_kernel* batch_norm, std::uint64_t seed) : seed_(seed), layers_(layers) {
  for (std::size_t l = 0; l < layers; ++l) {
    Layer& layer = layers_[l];
    const bool last = l + 1 == layers;
    layer.inputs = l == 0 ? Examples::features : width;
    layer.outputs = last ? Examples::classes : width;
    layer.weights.resize(layer.inputs * layer.outputs);
    for (std::size_t i = 0; i < layer.weights.size(); ++i) layer.weights[i] = weight_deviation * deviate(seed, l, i);
    // Batch norm has beta for it.
    if (last || batch_norm == nullptr)
      layer.biases.resize(layer.outputs, 0);
    else
      layer.norm.emplace(*batch_norm, width);
  }
}

// ---- forward -------------------------------------------------------------------------------------------------------

std::vector<float> Network::forward(const float* pixels, std::size_t examples, bool training) {
  std::vector<float> input(pixels, pixels + examples * Examples::features);
  for (Layer& layer : layers_) {
    layer.x = std::move(input);
    layer.z.resize(examples * layer.outputs);
    const ConstView x = view(layer.x.data(), examples, layer.inputs);
    const ConstView weights = view(layer.weights.data(), layer.inputs, layer.outputs);
    View z = view(layer.z, examples, layer.outputs);
    if (training)
      z.noalias() = x * weights;
    else
      // How Eigen orders the sums depends on the shape of the product. In evaluation it is always that of one example,
      // so only batch norm meets the others.
      for (Eigen::Index i = 0; i < z.rows(); ++i) z.row(i).noalias() = x.row(i) * weights;
    layer.normalized.resize(layer.z.size());
    View normalized = view(layer.normalized, examples, layer.outputs);
    if (!layer.norm)
      normalized = z.rowwise() + view(layer.biases.data(), 1, layer.outputs).row(0);
    else if (training)
      layer.norm->forward_training(examples, layer.z.data(), layer.normalized.data());
    else
      layer.norm->forward_inference(examples, layer.z.data(), layer.normalized.data());
    input.resize(layer.normalized.size());
    view(input, examples, layer.outputs) = normalized.cwiseMax(0.0F);
  }
  return layers_.back().normalized;
}

std::vector<float> Network::evaluate(const float* pixels, std::size_t examples) {
  return forward(pixels, examples, false);
}

std::vector<float> Network::score_as_in_training(const float* pixels, std::size_t examples) {
  return forward(pixels, examples, true);
}

// ---- backward ------------------------------------------------------------------------------------------------------

// From the gradient of the scores; each layer takes its step when those below it have its gradient.
void Network::step(std::vector<float> gradient, std::size_t examples) {
  std::vector<float> dz;
  for (std::size_t l = layers; l-- > 0;) {
    Layer& layer = layers_[l];
    if (l + 1 < layers)
      for (std::size_t i = 0; i < gradient.size(); ++i)
        if (!(layer.normalized[i] > 0)) gradient[i] = 0;
    dz.resize(gradient.size());
    std::vector<float> dbiases(layer.biases.size());
    if (layer.norm) {
      layer.norm->backward(examples, layer.z.data(), gradient.data(), dz.data());
    } else {
      dz = gradient;
      view(dbiases, 1, layer.outputs) = view(dz, examples, layer.outputs).colwise().sum();
    }

    std::vector<float> dweights(layer.weights.size());
    view(dweights, layer.inputs, layer.outputs).noalias() =
        view(layer.x.data(), examples, layer.inputs).transpose() * view(dz, examples, layer.outputs);
    if (l > 0) {
      gradient.resize(layer.x.size());
      view(gradient, examples, layer.inputs).noalias() =
          view(dz, examples, layer.outputs) * view(layer.weights.data(), layer.inputs, layer.outputs).transpose();
    }

    descend(layer.weights, dweights);
    descend(layer.biases, dbiases);
    if (layer.norm) {
      descend(layer.norm->gamma, layer.norm->dgamma);
      descend(layer.norm->beta, layer.norm->dbeta);
    }
  }
}

Epoch Network::train(const Examples& examples, std::uint64_t epoch) {
  const std::vector<std::size_t> order = shuffled(examples.count(), seed_, order_stream + epoch);
  Epoch result;
  std::size_t seen = 0;
  std::size_t right = 0;
  for (; seen + batch_size <= order.size(); seen += batch_size) {
    std::vector<float> pixels;
    std::vector<int> labels;
    for (std::size_t i = seen; i < seen + batch_size; ++i) {
      const auto first = examples.pixels.begin() + static_cast<std::ptrdiff_t>(order[i] * Examples::features);
      pixels.insert(pixels.end(), first, first + Examples::features);
      labels.push_back(examples.labels[order[i]]);
    }
    std::vector<float> scores = forward(pixels.data(), batch_size, true);
    const std::vector<int> predicted = predictions(scores);
    for (std::size_t i = 0; i < batch_size; ++i) right += predicted[i] == labels[i] ? 1U : 0U;
    result.loss += differentiate_loss(scores, labels);
    step(std::move(scores), batch_size);
  }
  result.loss /= static_cast<double>(seen);
  result.training = static_cast<double>(right) / static_cast<double>(seen);
  return result;
}

// ---- checkpoints ---------------------------------------------------------------------------------------------------

template <typename Visit>
void Network::visit_parameters(Layer& layer, const Visit& visit) {
  visit(layer.weights);
  visit(layer.biases);
  if (!layer.norm) return;
  visit(layer.norm->gamma);
  visit(layer.norm->beta);
}

Checkpoint Network::checkpoint() {
  Checkpoint result;
  const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (Layer& layer : layers_) {
    visit_parameters(layer, [&](const std::vector<float>& values) { append(result.parameters, values); });
    if (!layer.norm) continue;
    append(result.running, layer.norm->running_mean);
    append(result.running, layer.norm->running_var);
  }
  return result;
}

void Network::restore(const Checkpoint& checkpoint) {
  restore_parameters(checkpoint.parameters);
  auto next = checkpoint.running.begin();
  for (Layer& layer : layers_)
    if (layer.norm)
      for (std::vector<float>* values : {&layer.norm->running_mean, &layer.norm->running_var}) {
        assert(static_cast<std::size_t>(checkpoint.running.end() - next) >= values->size());
        std::copy_n(next, values->size(), values->begin());
        next += static_cast<std::ptrdiff_t>(values->size());
      }
}

void Network::restore_parameters(const std::vector<float>& parameters) {
  auto next = parameters.begin();
  for (Layer& layer : layers_) {
    visit_parameters(layer, [&](std::vector<float>& values) {
      assert(static_cast<std::size_t>(parameters.end() - next) >= values.size());
      std::copy_n(next, values.size(), values.begin());
      next += static_cast<std::ptrdiff_t>(values.size());
    });
    if (!layer.norm) continue;
    std::fill(layer.norm->running_mean.begin(), layer.norm->running_mean.end(), 0.0F);
    std::fill(layer.norm->running_var.begin(), layer.norm->running_var.end(), 1.0F);
  }
}

// ---- accuracy ------------------------------------------------------------------------------------------------------

std::vector<int> predictions(const std::vector<float>& scores) {
  std::vector<int> result;
  for (auto row = scores.begin(); row != scores.end(); row += Examples::classes)
    result.push_back(static_cast<int>(std::max_element(row, row + Examples::classes) - row));
  return result;
}

double accuracy(Network& network, const Examples& examples) {
  const std::vector<int> predicted = predictions(network.evaluate(examples.pixels.data(), examples.count()));
  std::size_t right = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) right += predicted[i] == examples.labels[i] ? 1U : 0U;
  return static_cast<double>(right) / static_cast<double>(examples.count());
}

}  // namespace normgate::training
