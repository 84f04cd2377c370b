// Choices that follow from a key, the same on every machine: what random problems are made of.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/problem/data.hpp"

namespace normgate {

// A stream of words that is the same everywhere.
class Draw {
 public:
  explicit Draw(std::uint64_t key, std::uint64_t stream = 0) : key_(key), stream_(stream) {}
  std::uint32_t word() { return random_words(key_, stream_, index_++).w[0]; }
  std::uint32_t below(std::uint32_t n) { return word() % n; }
  bool coin() { return (word() & 1U) != 0; }
  // A finite float32 of any magnitude; one in eight subnormal or zero, one in eight next to the largest.
  float any_float() {
    const std::uint32_t sign = word() & 0x80000000U;
    const std::uint32_t kind = below(8);
    std::uint32_t bits = word() & 0x7FFFFFFFU;
    if (kind == 0) bits &= 0x007FFFFFU;
    if (kind == 1) bits = 0x7F7FFFFFU - (bits & 0xFFU);
    if (bits >= 0x7F800000U) bits &= 0x3FFFFFFFU;
    return std::bit_cast<float>(bits | sign);
  }

 private:
  std::uint64_t key_;
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
};

template <typename Choices>
auto one_of(Draw& draw, const Choices& choices) {
  return *(choices.begin() + draw.below(static_cast<std::uint32_t>(choices.size())));
}

template <typename Enum>
Enum any(Draw& draw, std::uint32_t count) {
  return static_cast<Enum>(draw.below(count));
}

// What the profiles do not reach: any magnitude side by side, subnormals, the largest values.
inline void spoil(Draw& draw, std::vector<float>& values, std::uint32_t kind, bool variance) {
  const float common = draw.any_float();
  for (float& value : values) {
    switch (kind) {
      case 1:
        value = draw.any_float();
        break;
      case 2:
        value = (draw.coin() ? 1e30F : 1e-30F) * static_cast<float>(1 + draw.below(100));
        if (draw.coin()) value = -value;
        break;
      case 3:
        value = std::bit_cast<float>(draw.below(0x00800000U));
        break;
      case 4:
        value = std::bit_cast<float>(0x7F7FFFFFU - draw.below(4));
        break;
      default:
        value = draw.below(8) == 0 ? draw.any_float() : common;
        break;
    }
    if (variance && draw.below(16) != 0) value = std::fabs(value);
  }
}

}  // namespace normgate
