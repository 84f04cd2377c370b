// Fashion-MNIST, as Debian's dataset-fashion-mnist ships it: 28 x 28 grey values of ten kinds of clothing, in equal
// shares. It is the one real set of images in Debian 12 that comes alone (31 MB); the 8 x 8 digits of introductory
// texts come with scikit-learn, NumPy and SciPy only. It is harder than they are: a network that would reach 0.9 there
// reaches some 0.8 here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace normgate::training {

struct Examples {
  static constexpr std::size_t features = 14 * 14;  // means of 2 x 2 pixels, from 0 to 1
  static constexpr std::size_t classes = 10;

  std::vector<float> pixels;  // one example after the other
  std::vector<int> labels;
  [[nodiscard]] std::size_t count() const { return labels.size(); }
  [[nodiscard]] double largest_share() const;  // what naming one class for all examples reaches at best
};

struct Data {
  Examples training;    // the first ones of the training files
  Examples validation;  // the first ones of the test files
};

// Throws std::runtime_error if a file is missing, damaged or too short.
[[nodiscard]] Data read_data(const std::string& folder, std::size_t training, std::size_t validation);

}  // namespace normgate::training
