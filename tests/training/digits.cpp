#include "tests/training/digits.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "reference/problem/data.hpp"

namespace normgate::training {
namespace {

// Five columns and seven rows.
constexpr std::array<std::string_view, classes> glyphs{
    " ### "
    "#   #"
    "#   #"
    "#   #"
    "#   #"
    "#   #"
    " ### ",
    "  #  "
    " ##  "
    "# #  "
    "  #  "
    "  #  "
    "  #  "
    "#####",
    " ### "
    "#   #"
    "    #"
    "  ## "
    " #   "
    "#    "
    "#####",
    "#### "
    "    #"
    "    #"
    " ### "
    "    #"
    "    #"
    "#### ",
    "   # "
    "  ## "
    " # # "
    "#  # "
    "#####"
    "   # "
    "   # ",
    "#####"
    "#    "
    "#### "
    "    #"
    "    #"
    "#   #"
    " ### ",
    "  ## "
    " #   "
    "#    "
    "#### "
    "#   #"
    "#   #"
    " ### ",
    "#####"
    "    #"
    "   # "
    "  #  "
    "  #  "
    " #   "
    " #   ",
    " ### "
    "#   #"
    "#   #"
    " ### "
    "#   #"
    "#   #"
    " ### ",
    " ### "
    "#   #"
    "#   #"
    " ####"
    "    #"
    "   # "
    " ##  "};

constexpr int columns = 5;
constexpr int rows = 7;
constexpr int side = 8;

// A fraction of 2^32.
float fraction(std::uint32_t word) { return static_cast<float>(word >> 8U) * 0x1p-24F; }

void draw(std::uint64_t key, std::uint64_t number, int label, float* image) {
  const Words choice = random_words(key, 1, number);
  const int right = static_cast<int>(choice.w[0] % 4);  // the glyph's first column
  const int down = static_cast<int>(choice.w[1] % 2);
  const bool thick = choice.w[2] % 4 == 0;
  const float ink = 0.6F + 0.4F * fraction(choice.w[3]);
  std::array<float, pixels> sharp{};
  const auto put = [&](int row, int column) {
    if (row >= 0 && row < side && column >= 0 && column < side)
      sharp[static_cast<std::size_t>(row * side + column)] = ink;
  };
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      if (glyphs[static_cast<std::size_t>(label)][static_cast<std::size_t>(row * columns + column)] != '#') continue;
      put(row + down, column + right);
      if (thick) put(row + down, column + right + 1);
    }
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column) {
      float around = 0;
      for (const auto& [y, x] : {std::array{-1, 0}, std::array{1, 0}, std::array{0, -1}, std::array{0, 1}})
        if (row + y >= 0 && row + y < side && column + x >= 0 && column + x < side)
          around += sharp[static_cast<std::size_t>((row + y) * side + column + x)];
      const auto at = static_cast<std::size_t>(row * side + column);
      const Words noise = random_words(key, 2, number * pixels + at);
      float value = 0.8F * sharp[at] + 0.06F * around + 0.35F * (fraction(noise.w[0]) - 0.5F);
      if (noise.w[1] % 32 == 0) value = fraction(noise.w[2]);  // a spoilt pixel
      image[at] = std::clamp(value, 0.0F, 1.0F);
    }
}

}  // namespace

Examples digits(std::uint64_t key, int first, int count) {
  Examples examples;
  examples.images.resize(static_cast<std::size_t>(count) * pixels);
  for (int i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint64_t>(first + i);
    const int label = static_cast<int>(random_words(key, 0, number).w[0] % classes);
    examples.labels.push_back(label);
    draw(key, number, label, examples.images.data() + static_cast<std::size_t>(i) * pixels);
  }
  return examples;
}

}  // namespace normgate::training
