// The backward phases in eight lanes. u = 2^-53; products of errors beyond u² and the (1 + c u) of what is bounded
// are in `slack`. Letters as in elements.cpp: δ and ε are the errors of the centre and of r, C = |cl| / u.
//
//  d          From x: x - ch = dh + t exactly, dl = RN(t - cl); |d - (dh + dl)| <= δ + u²(|dh| + C), and
//             |dl| <= u(|dh| + C).
//             From y: n = y - b = nh + nl and w = wh + wl exactly; h = RN(nh/wh), whose remainder nh - h wh is a
//             double, at most u|h wh|. nl and RN(h wl), each at most 1.1 u|h wh|, are added and subtracted: off by
//             (2.2 + 3.3 + 1.1) u²|h wh| and at most 3.3 u|h wh|. The quotient of that by wh errs by 3.3 u²|h|, and
//             wh in the place of w makes 3.3 u²|h| more: 13.2 u²|h| in all, and δ = C = 0.
//             Either way |d - (dh + dl)| <= 14 u²|dh| + δ + u² C.
//  g = dy w   gh + e = dy wh exactly, gl = RN(e + dy wl). dy wl is a product of 24 bits each, as wl is a multiple of
//             gamma's last bit and not above gamma. |gl| <= 2u G with G = |gh|, and |g - (gh + gl)| <= 2u² G.
//             Without 1+w gl = 0 and g is exact.
//
//  sums       d is around ch alone: from x dh + dl exactly with |dl| <= u|dh|, from y as above with |dl| <= u|dh|
//             after a two_sum. With T = |gh dh|: gh dh = ph + e; low = RN(e + RN(RN(gh dl) + RN(gl dh))): roundings
//             u²(T + 2T + 3T + 4T), gl dl left out 2u² T, g's error 2u² T, d's 14 u² T: 28 u² T in all, and
//             |low| <= 4.1 u|ph|: β = 4.1 of lanes-inl.h. Σg has β = 2 and errors of 2u² G. A = Σ|ph| and Σ|gh| are
//             summed in plain double.
//
//  dx         r g: rh gh = th + te; tl = RN(te + RN(RN(rl gh) + RN(rh gl))). With T = |th| roundings of
//             u²(T + 2T + 3T + 4T), rl gl left out 2u² T, g's error 2u² T, r's ε: (14u² + ε/|rh|) T; |tl| <= 4u T.
//             P d: Ph dh = vh + ve; vl = RN(ve + RN(RN(Pl dh) + RN(Ph dl))). With V = |vh|, K = C|Ph| roundings of
//             u²(V + (V + K) + (2V + K) + (3V + K)), Pl dl left out u²(V + K), d's error 14u² V + u² K + δ|P|, P's
//             ε_P|d|: 22u² V + 5u² K + δ|P| + ε_P(|dh| + 2u C); |vl| <= u(3V + K).
//             th - vh = s + t and s - ah = z + t' exactly; low = RN(RN(t + t') + RN(RN(tl - vl) - al)). With A =
//             |ah| |t| <= u(T + V) and |t'| <= u(T + V + A): roundings
//             u²((2T + 2V + A) + (4T + 3V + K) + (4T + 3V + K + A) + (6T + 5V + K + 2A)). Together
//             |dx - (z + low)| <= (30u² + ε/|rh|) T + (35u²|Ph| + ε_P)|dh| + 8u² K + 4u² A + ε_A + δ|P| + 2u ε_P C.
//  rounding   As in rounding-inl.h, where low may be larger than u|z|: |low| <= u(6T + 5V + K + 2A), and 2u|low| is
//             12u² T + 10u² V + 2u² K + 4u² A more.
//
//  columns    x^ = d r = ph + pl as in elements.cpp, with 14 in place of 1 for d's error:
//             (22u² + ε/|rh|) M + 5u² K + δ|r| + ε u C with K = C|rh|; |pl| <= u(3M + K). Times dy, Y = |dy|:
//             ph dy = qh + f, ql = RN(f + RN(pl dy)): u²((3M + K) + (4M + K)) Y more, |ql| <= u(4M + K) Y.
//             (hi, lo) is normalized: hi + qh = s + t; v = RN(t + ql), l = RN(lo + v), (hi', lo') = two_sum(s, l).
//             With B = Σ|qh| over all rows |hi| and |s| are at most 1.01 B (and u Σ(K Y), which is of third order):
//             v errs by u²(1.01 B + (4M + K) Y), l by u²(2.02 B + (4M + K) Y). For R rows that is
//             u²(3.1 R B + Σ(8M + 2K) Y) more, so that a row adds
//             (40u² + 3.1 R u² + ε/|rh|)|qh| + ((10u² C + δ)|r| + 2u ε C) Y.
//             Rounded by rounding-inl.h, |lo| being at most u|hi|. A bound is off by less than 2^-50 R of itself
//             (gamma_bound_factor).
//             dbeta: hi + dy = s + t, l = RN(lo + t): 2.1 u² R Σ|dy|.
//
// Range. d's high part is 0 or a multiple of 2^-330: from x as in elements.cpp (a mean over a weight is at least
// 2^-277 with 53 bits), from y a quotient of at least 2^-277. Below 2^278, and where P occurs, which has no weight,
// below 2^130 from x. gh is 0 or a multiple of 2^-298 below 2^257, r's high part of 2^-192 below 2^265, dy of
// 2^-149. |Ph| is 0 or from 2^-500 to 2^600 (the caller sees to it), so a multiple of 2^-553. So the exact products
// are multiples of 2^-883 at least, and all are below 2^900.
#include "reference/truth/tiers/backward_elements.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/truth/tiers/backward_elements.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reference/truth/tiers/lanes-inl.h"
#include "reference/truth/tiers/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::tiers {
namespace HWY_NAMESPACE {

// Eight values from position i on; of a last, shorter vector the first `count`.
HWY_INLINE Eight take(const float* x, std::int64_t i, std::int64_t count) {
  return HWY_LIKELY(count == width) ? load(x + i) : load_first(x + i, count);
}
HWY_INLINE Eight take(const Along& along, const Eight& same, std::int64_t i, std::int64_t count) {
  return along.values == nullptr ? same : take(along.values, i, count);
}

template <bool plus_one>
HWY_INLINE Pair weight_of(const Eight& gamma) {
  if constexpr (plus_one) return two_sum(gamma, all(1));
  return {gamma, all(0)};
}
template <bool plus_one>
HWY_INLINE Pair weighted(const Eight& dy, const Pair& w) {
  if constexpr (!plus_one) return {dy * w.hi, all(0)};
  const Pair g = two_product(dy, w.hi);
  return {g.hi, g.lo + dy * w.lo};
}

HWY_INLINE Pair normalized(const Eight& y, const Eight& beta, const Pair& w) {
  const Pair n = two_sum(y, all(0) - beta);
  const Eight h = each([&](std::size_t p) HWY_ATTR { return hn::Div(n.hi.part[p], w.hi.part[p]); });
  const Pair product = two_product(h, w.hi);
  const Eight rest = (((n.hi - product.hi) - product.lo) + n.lo) - h * w.lo;
  return two_sum(h, each([&](std::size_t p) HWY_ATTR { return hn::Div(rest.part[p], w.hi.part[p]); }));
}

// What the elements of a group share.
template <bool from_output, bool plus_one>
struct Shared {
  explicit HWY_INLINE Shared(const BackwardGroup& g)
      : group(g),
        minus_ch(all(-g.centre.hi)),
        minus_cl(all(-g.centre.lo)),
        gamma(all(static_cast<double>(g.gamma.value))),
        beta(all(static_cast<double>(g.beta.value))) {}

  HWY_INLINE Pair weight(std::int64_t i, std::int64_t count) const {
    return weight_of<plus_one>(take(group.gamma, gamma, i, count));
  }
  // d around the whole centre, or around its high part as the sums want it.
  template <bool around_hi>
  HWY_INLINE Pair deviation(std::int64_t i, std::int64_t count, const Pair& w) const {
    const Eight value = take(group.source, i, count);
    if constexpr (from_output) return normalized(value, take(group.beta, beta, i, count), w);
    const Pair d = two_sum(value, minus_ch);
    return {d.hi, around_hi ? d.lo : d.lo + minus_cl};
  }

  const BackwardGroup& group;
  Eight minus_ch;
  Eight minus_cl;
  Eight gamma;
  Eight beta;
};

template <bool from_output, bool plus_one>
GradientSums Sums(const BackwardGroup& group, bool scaled) {
  const Shared<from_output, plus_one> shared(group);
  Two g_total{0, 0};
  Two products_total{0, 0};
  double g_modulus = 0;
  double products_modulus = 0;
  for (std::int64_t begin = 0; begin < group.n; begin += chunk) {
    const std::int64_t end = std::min(group.n, begin + chunk);
    Pair g_sum{all(0), all(0)};
    Pair products{all(0), all(0)};
    Eight g_terms = all(0);
    Eight terms = all(0);
    for (std::int64_t i = begin; i < end; i += width) {
      const std::int64_t count = std::min(width, end - i);
      const Eight dy = take(group.dy, i, count);
      const Pair w = shared.weight(i, count);
      Pair d = shared.template deviation<true>(i, count, w);
      if (HWY_UNLIKELY(count < width)) d = {keep_first(d.hi, count), keep_first(d.lo, count)};
      if (scaled) {
        const Pair g = weighted<plus_one>(dy, w);
        const Pair product = two_product(g.hi, d.hi);
        accumulate(g_sum, g.hi, g.lo);
        accumulate(products, product.hi, product.lo + (g.hi * d.lo + g.lo * d.hi));
        g_terms = g_terms + abs(g.hi);
        terms = terms + abs(product.hi);
      } else {
        const Pair product = two_product(dy, d.hi);
        accumulate(g_sum, dy);
        accumulate(products, product.hi, product.lo + dy * d.lo);
        g_terms = g_terms + abs(dy);
        terms = terms + abs(product.hi);
      }
    }
    g_total = tiers::add(g_total, fold(g_sum));
    products_total = tiers::add(products_total, fold(products));
    g_modulus += fold(g_terms);
    products_modulus += fold(terms);
  }
  const double of_g = (scaled ? lane_factor(group.n, 2) + 2 : lane_factor(group.n, 0)) * u * u * modulus_slack;
  const double of_products = (lane_factor(group.n, 4.1) + 28) * u * u * modulus_slack;
  return {{g_total.hi, g_total.lo, of_g * g_modulus},
          {products_total.hi, products_total.lo, of_products * products_modulus}};
}

// dx as high + low, not normalized, with T = |th|, V = |vh| and |dh| for the bounds.
struct Gradient {
  Pair value;
  Eight modulus_of_g;
  Eight modulus_of_d;
};

// The factors of a bound T of_g + |dh| of_d + absolute.
struct GradientBound {
  Eight of_g;
  Eight of_d;
  Eight absolute;
};
// `g` u² T, `d` u² |Ph dh|, `k` u² K and `a` u² A, and what the errors of the scalars make.
HWY_INLINE GradientBound gradient_bound(const BackwardGroup& group, const GradientScalars& scalars, double g, double d,
                                        double k, double a) {
  const double r = std::fabs(scalars.rstd.hi);
  const double pull = std::fabs(scalars.pull.hi);
  const double low = std::fabs(group.centre.lo);  // u C
  return {all(((scalars.rstd.error == 0 ? 0 : scalars.rstd.error / r) + g * u * u) * slack),
          all((d * u * u * pull + scalars.pull.error) * slack),
          all((k * u * pull * low + a * u * u * std::fabs(scalars.offset.hi) + scalars.offset.error +
               group.centre.error * (pull + scalars.pull.error) + 2 * scalars.pull.error * low) *
              slack)};
}

// Calls out(position, count, gradient) for eight elements at a time, the last ones with a smaller count.
template <bool from_output, bool plus_one, bool pulled, typename Out>
HWY_INLINE void walk_gradients(const BackwardGroup& group, const GradientScalars& scalars, Out out) {
  const Shared<from_output, plus_one> shared(group);
  const Eight rh = all(scalars.rstd.hi);
  const Eight rl = all(scalars.rstd.lo);
  const Eight ph = all(scalars.pull.hi);
  const Eight pl = all(scalars.pull.lo);
  const Eight minus_ah = all(-scalars.offset.hi);
  const Eight al = all(scalars.offset.lo);
  const auto take_eight = [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    const Pair w = shared.weight(i, count);
    const Pair g = weighted<plus_one>(take(group.dy, i, count), w);
    const Pair t = two_product(g.hi, rh);
    const Eight tl = t.lo + (plus_one ? rl * g.hi + rh * g.lo : rl * g.hi);
    if constexpr (!pulled) {
      const Pair z = two_sum(t.hi, minus_ah);
      return Gradient{{z.hi, z.lo + (tl - al)}, abs(t.hi), all(0)};
    } else {
      const Pair d = shared.template deviation<false>(i, count, w);
      const Pair v = two_product(d.hi, ph);
      const Eight vl = v.lo + (pl * d.hi + ph * d.lo);
      const Pair s = two_sum(t.hi, all(0) - v.hi);
      const Pair z = two_sum(s.hi, minus_ah);
      return Gradient{{z.hi, (s.lo + z.lo) + ((tl - vl) - al)}, abs(t.hi), abs(d.hi)};
    }
  };
  std::int64_t i = 0;
  for (; i + width <= group.n; i += width) out(i, width, take_eight(i, width));
  if (i < group.n) out(i, group.n - i, take_eight(i, group.n - i));
}

template <bool from_output, bool plus_one, bool pulled>
void StoreSome(const BackwardGroup& group, const GradientScalars& scalars, Exact* HWY_RESTRICT dx) {
  static_assert(sizeof(Exact) == 3 * sizeof(double));
  const GradientBound factors = gradient_bound(group, scalars, 30, 35, 8, 4);
  walk_gradients<from_output, plus_one, pulled>(
      group, scalars, [&](std::int64_t i, std::int64_t count, const Gradient& gradient) HWY_ATTR {
        const Pair value = two_sum(gradient.value.hi, gradient.value.lo);
        Eight bound = gradient.modulus_of_g * factors.of_g + factors.absolute;
        if constexpr (pulled) bound = bound + gradient.modulus_of_d * factors.of_d;
        if (HWY_LIKELY(count == width)) {
          store_interleaved(value.hi, value.lo, bound, reinterpret_cast<double*>(dx + i));
        } else {
          double last[3 * virtual_lanes];
          store_interleaved(value.hi, value.lo, bound, last);
          std::memcpy(static_cast<void*>(dx + i), last, static_cast<std::size_t>(count) * sizeof(Exact));
        }
      });
}

template <bool from_output, bool plus_one, bool pulled>
std::int64_t RoundSome(const BackwardGroup& group, const GradientScalars& scalars, float* HWY_RESTRICT dx,
                       std::int64_t* undecided) {
  const GradientBound factors = gradient_bound(group, scalars, 42, 45, 10, 8);
  std::int64_t open = 0;
  walk_gradients<from_output, plus_one, pulled>(
      group, scalars, [&](std::int64_t i, std::int64_t count, const Gradient& gradient) HWY_ATTR {
        Eight bound = gradient.modulus_of_g * factors.of_g + factors.absolute;
        if constexpr (pulled) bound = bound + gradient.modulus_of_d * factors.of_d;
        open = round_eight(gradient.value, bound, i, count, dx, undecided, open);
      });
  return open;
}

template <bool from_output, bool plus_one>
void Store(const BackwardGroup& group, const GradientScalars& scalars, Exact* dx) {
  if (is_zero(scalars.pull)) return StoreSome<from_output, plus_one, false>(group, scalars, dx);
  StoreSome<from_output, plus_one, true>(group, scalars, dx);
}
template <bool from_output, bool plus_one>
std::int64_t Round(const BackwardGroup& group, const GradientScalars& scalars, float* dx, std::int64_t* undecided) {
  if (is_zero(scalars.pull)) return RoundSome<from_output, plus_one, false>(group, scalars, dx, undecided);
  return RoundSome<from_output, plus_one, true>(group, scalars, dx, undecided);
}

template <bool from_output, bool plus_one>
void Row(const BackwardGroup& group, const Certified& rstd, std::int64_t rows, std::int64_t column, ColumnSums* gamma,
         ColumnSums* beta) {
  const Shared<from_output, plus_one> shared(group);
  const double r = std::fabs(rstd.hi);
  const double low = std::fabs(group.centre.lo);  // u C
  const Eight rh = all(rstd.hi);
  const Eight rl = all(rstd.lo);
  const Eight relative =
      all(((rstd.error == 0 ? 0 : rstd.error / r) + (40 + 3.1 * static_cast<double>(rows)) * u * u) * slack);
  const Eight absolute = all(((10 * u * low + group.centre.error) * (r + rstd.error) + 2 * rstd.error * low) * slack);
  const auto from_column = [&](ColumnSums* sums, std::vector<double> ColumnSums::*part) {
    return sums == nullptr ? nullptr : (sums->*part).data() + column;
  };
  double* const gamma_hi = from_column(gamma, &ColumnSums::hi);
  double* const gamma_lo = from_column(gamma, &ColumnSums::lo);
  double* const gamma_bound = from_column(gamma, &ColumnSums::bound);
  double* const beta_hi = from_column(beta, &ColumnSums::hi);
  double* const beta_lo = from_column(beta, &ColumnSums::lo);
  double* const beta_bound = from_column(beta, &ColumnSums::bound);
  for (std::int64_t i = 0; i < group.n; i += width) {
    const std::int64_t count = std::min(width, group.n - i);
    const Eight dy = take(group.dy, i, count);
    if (gamma != nullptr) {
      const Pair w = from_output ? shared.weight(i, count) : Pair{};
      const Pair d = shared.template deviation<false>(i, count, w);
      const Pair p = two_product(d.hi, rh);
      const Eight pl = p.lo + (d.hi * rl + d.lo * rh);
      const Pair q = two_product(p.hi, dy);
      const Eight ql = q.lo + pl * dy;
      const Pair s = two_sum(load(gamma_hi + i), q.hi);
      const Pair sum = two_sum(s.hi, load(gamma_lo + i) + (s.lo + ql));
      store(sum.hi, gamma_hi + i);
      store(sum.lo, gamma_lo + i);
      store(load(gamma_bound + i) + (abs(q.hi) * relative + abs(dy) * absolute), gamma_bound + i);
    }
    if (beta != nullptr) {
      const Pair s = two_sum(load(beta_hi + i), dy);
      const Pair sum = two_sum(s.hi, load(beta_lo + i) + s.lo);
      store(sum.hi, beta_hi + i);
      store(sum.lo, beta_lo + i);
      store(load(beta_bound + i) + abs(dy), beta_bound + i);
    }
  }
}

std::int64_t RoundColumns(const ColumnSums& sums, std::int64_t first, std::int64_t n, double factor,
                          float* HWY_RESTRICT out, std::int64_t* undecided) {
  const Eight factors = all(factor);
  std::int64_t open = 0;
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t at = first + i;
    open = round_eight({load(sums.hi.data() + at), load(sums.lo.data() + at)}, load(sums.bound.data() + at) * factors,
                       i, std::min(width, n - i), out, undecided, open);
  }
  return open;
}

GradientSums SumsOf(const BackwardGroup& group, bool scaled) {
  if (group.from_output) return group.plus_one ? Sums<true, true>(group, scaled) : Sums<true, false>(group, scaled);
  return group.plus_one ? Sums<false, true>(group, scaled) : Sums<false, false>(group, scaled);
}
void StoreGradients(const BackwardGroup& group, const GradientScalars& scalars, Exact* dx) {
  if (group.from_output)
    return group.plus_one ? Store<true, true>(group, scalars, dx) : Store<true, false>(group, scalars, dx);
  return group.plus_one ? Store<false, true>(group, scalars, dx) : Store<false, false>(group, scalars, dx);
}
std::int64_t RoundGradients(const BackwardGroup& group, const GradientScalars& scalars, float* dx,
                            std::int64_t* undecided) {
  if (group.from_output)
    return group.plus_one ? Round<true, true>(group, scalars, dx, undecided)
                          : Round<true, false>(group, scalars, dx, undecided);
  return group.plus_one ? Round<false, true>(group, scalars, dx, undecided)
                        : Round<false, false>(group, scalars, dx, undecided);
}
void AddRow(const BackwardGroup& group, const Certified& rstd, std::int64_t rows, std::int64_t column,
            ColumnSums* gamma, ColumnSums* beta) {
  if (!group.from_output) return Row<false, false>(group, rstd, rows, column, gamma, beta);
  return group.plus_one ? Row<true, true>(group, rstd, rows, column, gamma, beta)
                        : Row<true, false>(group, rstd, rows, column, gamma, beta);
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::tiers
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::tiers {

HWY_EXPORT(SumsOf);
HWY_EXPORT(StoreGradients);
HWY_EXPORT(RoundGradients);
HWY_EXPORT(AddRow);
HWY_EXPORT(RoundColumns);

GradientSums gradient_sums(const BackwardGroup& group, bool scaled) {
  return HWY_DYNAMIC_DISPATCH(SumsOf)(group, scaled);
}
void store_gradients(const BackwardGroup& group, const GradientScalars& scalars, Exact* dx) {
  HWY_DYNAMIC_DISPATCH(StoreGradients)(group, scalars, dx);
}
std::int64_t round_gradients(const BackwardGroup& group, const GradientScalars& scalars, float* dx,
                             std::int64_t* undecided) {
  return HWY_DYNAMIC_DISPATCH(RoundGradients)(group, scalars, dx, undecided);
}
void add_row(const BackwardGroup& group, const Certified& rstd, std::int64_t rows, std::int64_t column,
             ColumnSums* gamma, ColumnSums* beta) {
  HWY_DYNAMIC_DISPATCH(AddRow)(group, rstd, rows, column, gamma, beta);
}

// Whole vectors are loaded and stored.
ColumnSums::ColumnSums(std::int64_t n) {
  const auto size = (static_cast<std::size_t>(n) + 7) / 8 * 8;
  hi.assign(size, 0);
  lo.assign(size, 0);
  bound.assign(size, 0);
}
void ColumnSums::reset() {
  for (std::vector<double>* part : {&hi, &lo, &bound}) std::fill(part->begin(), part->end(), 0.0);
}
double gamma_bound_factor(std::int64_t rows) { return slack + 0x1p-50 * static_cast<double>(rows); }
double beta_bound_factor(std::int64_t rows) { return 2.1 * u * u * static_cast<double>(rows) * slack; }
std::int64_t round_columns(const ColumnSums& sums, std::int64_t first, std::int64_t count, double factor, float* out,
                           std::int64_t* undecided) {
  return HWY_DYNAMIC_DISPATCH(RoundColumns)(sums, first, count, factor, out, undecided);
}

}  // namespace normgate::tiers
#endif
