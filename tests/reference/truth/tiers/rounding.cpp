// Rounding to the formats, against searching all their values, and at every kind of boundary.
#include "reference/truth/tiers/rounding.hpp"

#include <limits>

#include "tests/reference/truth/support.hpp"

namespace normgate {
namespace {

using tiers::Format;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::array formats{Format::float32, Format::bfloat16, Format::float16};

double smallest(Format format) { return tiers::value_at(1, format); }

TEST(Rounding, TheFormatsAsTheirStandardsSay) {
  EXPECT_EQ(smallest(Format::float32), 0x1p-149);
  EXPECT_EQ(smallest(Format::bfloat16), 0x1p-133);
  EXPECT_EQ(smallest(Format::float16), 0x1p-24);
  for (const auto& [format, largest, threshold] : {std::tuple{Format::float32, 0x1.fffffep127, 0x1.ffffffp127},
                                                   {Format::bfloat16, 0x1.fep127, 0x1.ffp127},
                                                   {Format::float16, 65504.0, 65520.0}}) {
    const std::int64_t last = tiers::ordinal_of(largest, format);
    EXPECT_EQ(tiers::value_at(last, format), largest);
    EXPECT_EQ(tiers::value_at(last + 1, format), infinity);
    EXPECT_EQ(tiers::value_at(-last - 1, format), -infinity);
    EXPECT_EQ(tiers::ordinal_of(infinity, format), last + 1);
    EXPECT_EQ(tiers::midpoint_above(last, format), threshold);
    EXPECT_EQ(tiers::midpoint_above(-last - 1, format), -threshold);
    EXPECT_EQ(tiers::round_sum(threshold, 0, format), infinity);
    EXPECT_EQ(tiers::round_sum(threshold, -0x1p-1074, format), largest);
    EXPECT_EQ(tiers::round_sum(-threshold, 0x1p-1074, format), -largest);
    EXPECT_EQ(tiers::round_sum(0x1p1000, -1, format), infinity);
  }
}

// Every value rounds to itself, every midpoint to the even neighbour, and what is beside a midpoint by the smallest
// double to the nearer one.
TEST(Rounding, EveryValueAndMidpoint) {
  for (const Format format : formats) {
    const std::int64_t last = tiers::ordinal_of(infinity, format) - 1;
    // All values of the short formats; all kinds of significands, by a stride that is odd, of float32.
    const std::int64_t stride = format == Format::float32 ? 65537 : 1;
    for (std::int64_t k = -last - 1; k <= last; k += stride) {
      const double value = tiers::value_at(k, format);
      const double next = tiers::value_at(k + 1, format);
      const double middle = tiers::midpoint_above(k, format);
      ASSERT_LT(value, middle);
      ASSERT_LT(middle, next);
      if (std::isfinite(value)) {
        ASSERT_EQ(tiers::ordinal_of(value, format), k);
        ASSERT_EQ(tiers::round_sum(value, 0, format), value);
        ASSERT_EQ(tiers::round_sum(value, 0x1p-1074, format), value);
        ASSERT_EQ(tiers::round_sum(value, -0x1p-1074, format), value);
      }
      ASSERT_EQ(tiers::round_sum(middle, 0, format), k % 2 == 0 ? value : next);
      ASSERT_EQ(tiers::round_sum(middle, 0x1p-1074, format), next);
      ASSERT_EQ(tiers::round_sum(middle, -0x1p-1074, format), value);
      // In any split of the sum.
      ASSERT_EQ(tiers::round_sum(middle / 4, middle * 0.75, format), k % 2 == 0 ? value : next);
    }
  }
}

// float32 as the machine rounds a double; the short formats as the two neighbours by distance say.
TEST(Rounding, RandomDoubles) {
  Draw draw(0xB0DD);
  for (int i = 0; i < 100000; ++i) {
    const double value = static_cast<double>(draw.any_float()) * (1 + draw.below(1U << 30U) * 0x1p-52) +
                         static_cast<double>(draw.word()) * 0x1p-170;
    ASSERT_EQ(tiers::round_sum(value, 0, Format::float32), static_cast<double>(static_cast<float>(value)));
    for (const Format format : {Format::bfloat16, Format::float16}) {
      const double rounded = tiers::round_sum(value, 0, format);
      if (!std::isfinite(rounded)) continue;
      const std::int64_t k = tiers::ordinal_of(rounded, format);
      for (const std::int64_t other : {k - 1, k + 1})
        ASSERT_LE(std::fabs(value - rounded), std::fabs(value - tiers::value_at(other, format))) << hexfloat(value);
    }
  }
}

TEST(Rounding, NeverThroughFloat32) {
  // 1 + 2^-8 is a midpoint of bfloat16; what is above it by less than float32 sees is not.
  EXPECT_EQ(tiers::round_sum(1 + 0x1p-8, 0x1p-60, Format::bfloat16), 1 + 0x1p-7);
  EXPECT_EQ(tiers::round_sum(1 + 0x1p-8 + 0x1p-40, 0, Format::bfloat16), 1 + 0x1p-7);
  EXPECT_EQ(tiers::round_sum(1 + 0x1p-8, 0, Format::bfloat16), 1);
  EXPECT_EQ(tiers::round_sum(1 + 0x3p-8, -0x1p-60, Format::bfloat16), 1 + 0x1p-7);
}

TEST(Rounding, DecidedOnlyIfBothEndsAgree) {
  const double middle = 1 + 0x1p-24;
  EXPECT_EQ(tiers::round({middle, 0, 0}, Format::float32), 1);
  EXPECT_EQ(tiers::round({middle, 0, 0x1p-1074}, Format::float32), std::nullopt);
  EXPECT_EQ(tiers::round({middle, 0x1p-90, 0x1p-91}, Format::float32), 1 + 0x1p-23);
  EXPECT_EQ(tiers::round({middle, -0x1p-90, 0x1p-91}, Format::float32), 1);
  // The end of the enclosure is the boundary itself: both roundings are 1, as ties go there.
  EXPECT_EQ(tiers::round({middle, -0x1p-90, 0x1p-90}, Format::float32), 1);
  EXPECT_EQ(tiers::round({middle, 0x1p-90, 0x1p-90}, Format::float32), std::nullopt);
  // lo + bound is no double; the end is not rounded towards the inside.
  EXPECT_EQ(tiers::round({middle, -0x1p-90, 0x1.0000000000001p-90}, Format::float32), std::nullopt);
  EXPECT_EQ(tiers::round({middle, -0x1p-90, 0x1p-90 - 0x1p-160}, Format::float32), 1);
  EXPECT_EQ(tiers::round({0, 0, 0x1p-151}, Format::float32), 0);
  EXPECT_EQ(tiers::round({0, 0, 0x1p-149}, Format::float32), std::nullopt);
  EXPECT_EQ(tiers::round({0, 0, infinity}, Format::float32), std::nullopt);
  EXPECT_EQ(tiers::round({infinity, 0, 0}, Format::float16), infinity);
  EXPECT_TRUE(std::isnan(*tiers::round({std::nan(""), 0, 0}, Format::float16)));
}

}  // namespace
}  // namespace normgate
