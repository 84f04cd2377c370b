// Double-double arithmetic on the few numbers that belong to a whole group, each result with a proved bound.
//
// u = 2^-53. A Certified is hi + lo with |value - (hi + lo)| <= error, |lo| <= u |hi| up to a few u². Every bound
// below counts the roundings of its function from their largest possible operands; `slack` covers the rounding of
// the bounds themselves, each of which has fewer than 2^20 operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace normgate::tiers {

inline constexpr double u = 0x1p-53;
inline constexpr double slack = 1 + 0x1p-30;

struct Certified {
  double hi = 0;
  double lo = 0;
  double error = 0;
};

struct Two {
  double hi;
  double lo;
};
// hi + lo = a + b exactly (Knuth 1969).
inline Two two_sum(double a, double b) {
  const double s = a + b;
  const double bb = s - a;
  return {s, (a - (s - bb)) + (b - bb)};
}
// hi + lo = a b exactly where a b is far from the ends of the range; std::fma is exact on every machine.
inline Two two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}
inline double magnitude(const Certified& a) { return std::fabs(a.hi) * (1 + 4 * u) + a.error; }
inline Certified exactly(double value) { return {value, 0, 0}; }
inline bool is_zero(const Certified& a) { return a.hi == 0 && a.error == 0; }

// The sum of two pairs: relative error at most 3u² + 13u³ (Joldes, Muller & Popescu 2017, AccurateDWPlusDW).
inline Two add(Two a, Two b) {
  const Two s = two_sum(a.hi, b.hi);
  const Two t = two_sum(a.lo, b.lo);
  const double c = s.lo + t.hi;
  const double high = s.hi + c;
  const double low = t.lo + (c - (high - s.hi));
  const double result = high + low;
  return {result, low - (result - high)};
}

// a / n, n any number but 0. h = RN(a.hi / n) and h n = p + q exactly; a.hi - p is exact by Sterbenz' lemma, as p is
// within 2u |a.hi| of it; the remainder a.hi - h n of a division is a double, at most u |a.hi|, and |a.lo| <= u
// |a.hi|: their sum errs by 2u² |a.hi|, and the quotient, at most 2.1 u |h| large, by u of itself: less than 8 u²
// |h| in all.
inline Certified divided(const Certified& a, double n) {
  const double h = a.hi / n;
  const Two p = two_product(h, n);
  const double rest = ((a.hi - p.hi) - p.lo) + a.lo;
  const Two sum = two_sum(h, rest / n);
  return {sum.hi, sum.lo, (a.error / std::fabs(n) + 8 * u * u * std::fabs(h)) * slack};
}

// a + b for a >= 0 up to its error and b >= 0 exact. The low parts, at most u (a + b) and u a, are added with one
// rounding.
inline Certified plus(const Certified& a, double b) {
  const Two s = two_sum(a.hi, b);
  const Two sum = two_sum(s.hi, s.lo + a.lo);
  return {sum.hi, sum.lo, (a.error + 3 * u * u * std::fabs(s.hi)) * slack};
}

// sqrt(a), a > 0 and a.error <= a.hi / 4. s = RN(sqrt(a.hi)) and s s = p + q; a.hi - p is exact (Sterbenz), and so
// is the remainder a.hi - s² of a square root, at most 2.1 u a. With a.lo it is 3.1 u a large and errs by 3.1 u² a,
// its quotient e by 2s thus by 1.6 u² s and by u of itself, 1.6 u² s. sqrt(a) = s + e - e²/(2s) + …, |e²/(2s)| <=
// 1.3 u² s. In all less than 7 u² s. Where a is off by a.error, its root is off by at most a.error / (2 sqrt(a -
// a.error)) <= 0.58 a.error / s.
inline Certified root(const Certified& a) {
  const double s = std::sqrt(a.hi);
  const Two p = two_product(s, s);
  const double rest = ((a.hi - p.hi) - p.lo) + a.lo;
  const Two sum = two_sum(s, rest / (2 * s));
  return {sum.hi, sum.lo, (0.58 * a.error / s + 7 * u * u * s) * slack};
}

// 1 / a, a > 0 and a.error <= a.hi / 4. r = RN(1 / a.hi), a r = 1 - e with |e| <= 2.1 u: 1/a = r (1 + e + e² + …),
// where e² and what follows is below 5 u². a.hi r = p + q exactly; 1 - p (Sterbenz) and the remainder 1 - a.hi r are
// exact, at most u; RN(a.lo r) errs by 1.1 u² and the difference by 2.1 u², the product r e by 2.1 u². In all less
// than 11 u² r; a.error adds a.error / (a (a - a.error)) <= 1.4 a.error r².
inline Certified reciprocal(const Certified& a) {
  const double r = 1 / a.hi;
  const Two p = two_product(a.hi, r);
  const double e = ((1 - p.hi) - p.lo) - a.lo * r;
  const Two sum = two_sum(r, r * e);
  return {sum.hi, sum.lo, (1.4 * a.error * r * r + 11 * u * u * r) * slack};
}

// a + b, a - b.
inline Certified plus(const Certified& a, const Certified& b) {
  const Two s = add({a.hi, a.lo}, {b.hi, b.lo});
  return {s.hi, s.lo, (a.error + b.error + 4 * u * u * std::fabs(s.hi)) * slack};
}
inline Certified negated(const Certified& a) { return {-a.hi, -a.lo, a.error}; }
inline Certified minus(const Certified& a, const Certified& b) { return plus(a, negated(b)); }

// a + b where a is the larger part or exact: (a, b.hi) exactly by two_sum, then one rounding of the low parts, at
// most u |result| and u |b.hi| large.
inline Certified shifted(double a, const Certified& b) {
  const Two s = two_sum(a, b.hi);
  const Two sum = two_sum(s.hi, s.lo + b.lo);
  return {sum.hi, sum.lo, (b.error + 1.1 * u * u * (std::fabs(s.hi) + std::fabs(b.hi))) * slack};
}

// a b. The product of the high parts is exact; a.hi b.lo, a.lo b.hi (each at most u |a b|) and two additions of at
// most 4 u |a b| have roundings of 7 u², a.lo b.lo is left out: 9 u² |a b| in all.
inline Certified times(const Certified& a, const Certified& b) {
  const Two p = two_product(a.hi, b.hi);
  const Two sum = two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
  const double error = a.error * magnitude(b) + b.error * std::fabs(a.hi) * (1 + 4 * u) + 9 * u * u * std::fabs(p.hi);
  return {sum.hi, sum.lo, error * slack};
}

}  // namespace normgate::tiers
