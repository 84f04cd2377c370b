// The data of a problem, from its key alone: an element's value depends on key, role and logical index, never on
// layout, kernel, target, order or shard. Integers, exact scaling and correctly rounded + - * / sqrt only, never libm:
// a replay line must mean the same data everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reference/problem/problem.hpp"

namespace normgate {

// Every tensor that the problem reads, dense and row-major over the axes of its role; absent tensors are empty.
using Inputs = PerRole<std::vector<float>>;

[[nodiscard]] Inputs make_inputs(const Problem& problem);

// Philox4x32-10 words of (key, stream, index).
struct Words {
  std::uint32_t w[4];
};
[[nodiscard]] Words random_words(std::uint64_t key, std::uint64_t stream, std::uint64_t index);

// The eps that makes 1/D a power of two for profile exact: x = mean ± level in each group, so the variance is level².
// inside: 4^j - level² > 0; outside: 2^j - level; floor: level must be a power of two, any eps below. nullopt if none.
[[nodiscard]] std::optional<double> exact_eps(const Convention& convention, std::int32_t level);

}  // namespace normgate
