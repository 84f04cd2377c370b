// Rounding and the rows of values of the formats. Every step but the last comparison is exact in double: a format has
// at most 24 bits of precision and exponents from -149 on, and a midpoint needs one bit more.
#include "reference/truth/tiers/rounding.hpp"

#include <array>
#include <limits>

#include "reference/truth/tiers/scalars.hpp"

namespace normgate::tiers {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Parameters {
  int precision;  // bits of the significand, the leading one included
  int least;      // exponent of the smallest normal number
  int greatest;   // exponent of the largest finite numbers
};
constexpr std::array<Parameters, 3> parameters{{{24, -126, 127}, {8, -126, 127}, {11, -14, 15}}};

const Parameters& of(Format format) { return parameters[static_cast<std::size_t>(format)]; }

// The distance of neighbours at a > 0; that of the subnormal ones below the smallest normal number.
double spacing(double a, const Parameters& p) {
  return std::ldexp(1.0, std::max(std::ilogb(a), p.least) - p.precision + 1);
}

std::int64_t ordinal_of_infinity(const Parameters& p) {
  return static_cast<std::int64_t>(p.greatest - p.least + 2) << static_cast<unsigned>(p.precision - 1);
}

// The magnitude at an ordinal >= 0, where infinity's is the power of two that would come next.
double magnitude_at(std::int64_t ordinal, const Parameters& p) {
  const std::int64_t binade = std::int64_t{1} << static_cast<unsigned>(p.precision - 1);
  const std::int64_t above = std::max<std::int64_t>(ordinal / binade - 1, 0);  // binades above the lowest
  return std::ldexp(static_cast<double>(ordinal - above * binade), p.least - p.precision + 1 + static_cast<int>(above));
}

// lo + bound or lo - bound, rounded away from lo.
double moved(double lo, double by) {
  if (by == 0) return lo;
  const Two sum = two_sum(lo, by);
  const bool further = by > 0 ? sum.lo > 0 : sum.lo < 0;
  return further ? std::nextafter(sum.hi, by > 0 ? infinity : -infinity) : sum.hi;
}

}  // namespace

double round_sum(double hi, double lo, Format format) {
  const Parameters& p = of(format);
  const Two sum = two_sum(hi, lo);
  if (sum.hi == 0) return 0;
  const double a = std::fabs(sum.hi);
  if (!(a < std::ldexp(1.0, p.greatest + 1))) return std::copysign(infinity, sum.hi);
  const double rest = sum.hi < 0 ? -sum.lo : sum.lo;  // the value is ±(a + rest), |rest| <= 2^-53 a
  // below <= a < below + q. Where rest leads out of this interval, a is `below`, and the value is nearest to it: the
  // next midpoint is at least 2^-26 a away. Left or right of the midpoint: a - middle is exact where the two are within
  // a factor of two, and else larger than rest.
  const double q = spacing(a, p);
  const double below = std::floor(a / q) * q;
  const double middle = below + q / 2;
  const double side = a - middle;
  double result = below;
  if (side > -rest || (side == -rest && std::fmod(below / q, 2) != 0)) result = below + q;
  if (result >= std::ldexp(1.0, p.greatest + 1)) result = infinity;
  return std::copysign(result, sum.hi);
}

RoundedEnds rounded_ends(const Exact& exact, Format format) {
  if (!exact.finite()) return {exact.hi, exact.hi};
  if (!(exact.bound < infinity)) return {-infinity, infinity};
  return {round_sum(exact.hi, moved(exact.lo, -exact.bound), format),
          round_sum(exact.hi, moved(exact.lo, exact.bound), format)};
}

std::optional<double> round(const Exact& exact, Format format) {
  const RoundedEnds ends = rounded_ends(exact, format);
  if (std::isnan(ends.low) || ends.low == ends.high) return ends.high;
  return std::nullopt;
}

std::int64_t ordinal_of(double value, Format format) {
  const Parameters& p = of(format);
  std::int64_t ordinal = ordinal_of_infinity(p);
  if (value == 0) return 0;
  if (std::isfinite(value)) {
    const double a = std::fabs(value);
    const int binade = std::max(std::ilogb(a), p.least) - p.least;
    ordinal = (static_cast<std::int64_t>(binade) << static_cast<unsigned>(p.precision - 1)) +
              static_cast<std::int64_t>(a / spacing(a, p));
  }
  return value < 0 ? -ordinal : ordinal;
}

double value_at(std::int64_t ordinal, Format format) {
  const Parameters& p = of(format);
  const std::int64_t distance = ordinal < 0 ? -ordinal : ordinal;
  const double a = distance >= ordinal_of_infinity(p) ? infinity : magnitude_at(distance, p);
  return ordinal < 0 ? -a : a;
}

double midpoint_above(std::int64_t ordinal, Format format) {
  const Parameters& p = of(format);
  if (ordinal < 0) return -midpoint_above(-ordinal - 1, format);
  return (magnitude_at(ordinal, p) + magnitude_at(ordinal + 1, p)) / 2;
}

}  // namespace normgate::tiers
