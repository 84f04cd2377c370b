// Round to nearest, ties to even, from an Exact directly to a format: never through another one, which would round
// twice. To add a format: a line in the table of rounding.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "reference/truth/exact.hpp"

namespace normgate::tiers {

enum class Format : std::int32_t { float32 = 0, bfloat16 = 1, float16 = 2 };

// The rounded value of hi + lo, a real number, both finite doubles in any relation. Infinite from the format's overflow
// threshold on (float32: (2 - 2^-24) 2^127).
[[nodiscard]] double round_sum(double hi, double lo, Format format);

// Between which values of the format the rounded value lies: what the two ends of the enclosure round to.
struct RoundedEnds {
  double low = 0;
  double high = 0;
};
[[nodiscard]] RoundedEnds rounded_ends(const Exact& exact, Format format);
// The rounded value if both ends agree on it (zeros are equal), so that it is proved. What is not finite is its own
// value.
[[nodiscard]] std::optional<double> round(const Exact& exact, Format format);

// The values of a format in a row: 0 for both zeros, 1 for the smallest subnormal, -1 for its opposite, one further
// each. Even ordinals have even significands; the one beyond the largest finite value stands for infinity.
[[nodiscard]] std::int64_t ordinal_of(double value, Format format);
[[nodiscard]] double value_at(std::int64_t ordinal, Format format);
// The boundary between the values at `ordinal` and `ordinal + 1`, a double; with infinity it is the overflow threshold.
[[nodiscard]] double midpoint_above(std::int64_t ordinal, Format format);

}  // namespace normgate::tiers
