// Exact numbers: integers times powers of two, their sums in one pass, and elements (a + b sqrt(w)) / c of quadratic
// fields. Nothing is ever divided, so nothing is ever brought to lowest terms. To be included by .cpp files of this
// folder only.
#pragma once

#include <gmpxx.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace normgate::tiers {

// m 2^e.
struct Dyadic {
  mpz_class m;
  std::int64_t e = 0;

  Dyadic() = default;
  Dyadic(std::int64_t integer) : m(static_cast<long>(integer)) { strip(); }
  Dyadic(mpz_class mantissa, std::int64_t exponent) : m(std::move(mantissa)), e(exponent) { strip(); }

  // Without trailing zeros, and 0 with the exponent 0: equal numbers look alike.
  void strip() {
    if (m == 0) {
      e = 0;
      return;
    }
    const mp_bitcnt_t zeros = mpz_scan1(m.get_mpz_t(), 0);
    if (zeros == 0) return;
    mpz_tdiv_q_2exp(m.get_mpz_t(), m.get_mpz_t(), zeros);
    e += static_cast<std::int64_t>(zeros);
  }
  [[nodiscard]] int sign() const { return sgn(m); }
  // Above the leading bit: |value| < 2^width.
  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(mpz_sizeinbase(m.get_mpz_t(), 2)) + e; }

  friend bool operator==(const Dyadic& a, const Dyadic& b) { return a.e == b.e && a.m == b.m; }
};

// What is not finite counts as 0: no finite output depends on its value (exact.hpp).
inline Dyadic exactly(double value) {
  if (!std::isfinite(value) || value == 0) return {};
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return {mpz_class(static_cast<long>(std::ldexp(fraction, 53))), exponent - 53};
}

inline Dyadic operator*(const Dyadic& a, const Dyadic& b) {
  Dyadic result;
  result.m = a.m * b.m;  // odd if both are
  result.e = result.m == 0 ? 0 : a.e + b.e;
  return result;
}
inline Dyadic operator-(const Dyadic& a) {
  Dyadic result;
  result.m = -a.m;
  result.e = a.e;
  return result;
}
inline mpz_class times_power(const mpz_class& m, std::int64_t power) {  // power >= 0
  mpz_class result;
  mpz_mul_2exp(result.get_mpz_t(), m.get_mpz_t(), static_cast<mp_bitcnt_t>(power));
  return result;
}
inline Dyadic operator+(const Dyadic& a, const Dyadic& b) {
  if (a.m == 0) return b;
  if (b.m == 0) return a;
  if (a.e <= b.e) return {a.m + times_power(b.m, b.e - a.e), a.e};
  return {times_power(a.m, a.e - b.e) + b.m, b.e};
}
inline Dyadic operator-(const Dyadic& a, const Dyadic& b) { return a + -b; }
// -1, 0 or 1: a is below, equal to or above b.
inline int order(const Dyadic& a, const Dyadic& b) {
  if (a.sign() != b.sign()) return a.sign() < b.sign() ? -1 : 1;
  return (a - b).sign();
}

__extension__ using Wide = unsigned __int128;

// A float as ± m 2^e, or a product of up to three.
struct Factor {
  Wide m = 0;
  int e = 0;
  bool negative = false;
};
inline Factor factor(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t fraction = bits & 0x007FFFFFU;
  const int exponent = static_cast<int>((bits >> 23U) & 0xFFU);
  if (exponent == 0xFF) return {};  // as in exactly()
  return {exponent == 0 ? fraction : fraction | 0x00800000U, exponent == 0 ? -149 : exponent - 150, (bits >> 31U) != 0};
}
inline Factor operator*(const Factor& a, const Factor& b) { return {a.m * b.m, a.e + b.e, a.negative != b.negative}; }

// The exact sum of up to 2^60 products of three floats: a fixed-point integer in limbs of 32 bits whose carries wait. A
// product has at most 72 bits and lies between 2^-447 and 2^384: position 831 + 60 for the count + 1 for the sign, 28
// limbs. A term adds less than 2^32 to a limb, so 2^30 of them stay below 2^62.
class FixedPoint {
 public:
  void add(const Factor& term) {
    const auto position = static_cast<unsigned>(term.e - unit);
    Wide rest = term.m << (position % 32);
    for (std::size_t i = position / 32; rest != 0; ++i, rest >>= 32U) {
      const auto part = static_cast<std::int64_t>(static_cast<std::uint32_t>(rest));
      limbs_[i] += term.negative ? -part : part;
    }
    if (++pending_ == std::int64_t{1} << 30U) carry();
  }
  void subtract(Factor term) {
    term.negative = !term.negative;
    add(term);
  }
  [[nodiscard]] Dyadic value() const {
    mpz_class sum = 0;
    for (std::size_t i = limbs_.size(); i-- > 0;) sum = times_power(sum, 32) + mpz_class(static_cast<long>(limbs_[i]));
    return {sum, unit};
  }

 private:
  static constexpr int unit = -447;

  void carry() {
    for (std::size_t i = 0; i + 1 < limbs_.size(); ++i) {
      const std::int64_t above = limbs_[i] >> 32;
      limbs_[i] -= above * (std::int64_t{1} << 32U);
      limbs_[i + 1] += above;
    }
    pending_ = 0;
  }

  std::array<std::int64_t, 30> limbs_{};
  std::int64_t pending_ = 0;
};

// (a + b sqrt(w)) / c with c > 0; w >= 0 is kept elsewhere, once for all that share it.
struct Surd {
  Dyadic a;
  Dyadic b;
  Dyadic c{1};
};
inline Surd times(const Surd& s, const Surd& t, const Dyadic& w) {
  return {s.a * t.a + s.b * t.b * w, s.a * t.b + s.b * t.a, s.c * t.c};
}
// s numerator / divisor, divisor != 0.
inline Surd scaled(const Surd& s, const Dyadic& numerator, const Dyadic& divisor) {
  const Dyadic factor = divisor.sign() < 0 ? -numerator : numerator;
  return {s.a * factor, s.b * factor, s.c * (divisor.sign() < 0 ? -divisor : divisor)};
}
// 1/s for s != 0, by the conjugate: c (a - b sqrt(w)) / (a² - b² w). Where that divisor is 0 and s is not, b sqrt(w) =
// a. An s = 0 gives 0.
inline Surd inverse(const Surd& s, const Dyadic& w) {
  const Dyadic norm = s.a * s.a - s.b * s.b * w;
  if (norm.sign() != 0) return scaled({s.a, -s.b, 1}, s.c, norm);
  if (s.a.sign() * s.b.sign() <= 0) return {};
  return scaled({s.c, 0, 1}, 1, s.a * Dyadic(2));
}

}  // namespace normgate::tiers
