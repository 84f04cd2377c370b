// The groups and channels, spelled out.
#pragma once

#include "support.hpp"

namespace normgate {

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
