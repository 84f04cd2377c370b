// Whether what an output depends on by definition has a NaN or an infinity: special_values and
// special_gradients say what follows.
#pragma once

#include <cmath>

namespace normgate {

struct Dependency {
  bool nan = false;
  bool infinite = false;
  void add(float value) {
    nan = nan || std::isnan(value);
    infinite = infinite || std::isinf(value);
  }
  void add(const Dependency& other) {
    nan = nan || other.nan;
    infinite = infinite || other.infinite;
  }
  [[nodiscard]] bool any() const { return nan || infinite; }
};

}  // namespace normgate
