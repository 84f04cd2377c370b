// What the enclosure tests draw from: choices, values that the profiles do not reach; and the groups, spelled out.
#pragma once

#include "support.hpp"

namespace normgate {

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

// Which elements share a statistic, spelled out row by row.
inline std::size_t group_of(const Problem& problem, std::int64_t n, std::int64_t g, std::int64_t k, std::int64_t s) {
  const auto [extent_n, extent_g, extent_k, extent_s] = problem.shape;
  (void)extent_n;
  switch (problem.variant) {
    case Variant::batch_norm:
      return static_cast<std::size_t>(g * extent_k + k);
    case Variant::layer_norm:
    case Variant::rms_norm:
      return static_cast<std::size_t>(n * extent_s + s);
    case Variant::group_norm:
      return static_cast<std::size_t>(n * extent_g + g);
    case Variant::instance_norm:
      return static_cast<std::size_t>((n * extent_g + g) * extent_k + k);
  }
  return 0;
}

// Of every element in row-major order: its group, its channel.
inline std::vector<std::size_t> groups_of(const Problem& problem) {
  std::vector<std::size_t> result;
  for (std::int64_t n = 0; n < problem.shape[0]; ++n)
    for (std::int64_t g = 0; g < problem.shape[1]; ++g)
      for (std::int64_t k = 0; k < problem.shape[2]; ++k)
        for (std::int64_t s = 0; s < problem.shape[3]; ++s) result.push_back(group_of(problem, n, g, k, s));
  return result;
}
inline std::vector<std::size_t> channels_of(const Problem& problem) {
  std::vector<std::size_t> result;
  for (std::int64_t n = 0; n < problem.shape[0]; ++n)
    for (std::int64_t c = 0; c < problem.shape[1] * problem.shape[2]; ++c)
      result.insert(result.end(), static_cast<std::size_t>(problem.shape[3]), static_cast<std::size_t>(c));
  return result;
}

}  // namespace normgate
