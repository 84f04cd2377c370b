// A small data set of digits, 8×8 pixels, made here: glyphs that are moved, thickened, blurred and spoilt by noise, all
// from a key. (The 8×8 digits that introductory texts use are in python3-sklearn, which cannot be installed beside the
// Boost that the reference needs.)
#pragma once

#include <cstdint>
#include <vector>

namespace normgate::training {

inline constexpr int pixels = 64;
inline constexpr int classes = 10;

struct Examples {
  std::vector<float> images;  // examples × pixels, from 0 to 1
  std::vector<int> labels;    // 0 to 9
  [[nodiscard]] int count() const { return static_cast<int>(labels.size()); }
};

// `first` to `first + count` of the examples that follow from `key`: an example depends on its number only.
[[nodiscard]] Examples digits(std::uint64_t key, int first, int count);

}  // namespace normgate::training
