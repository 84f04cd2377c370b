// Elements in eight lanes. u = 2^-53; products of errors beyond u² and the (1 + c u) of what is bounded are in
// `slack`.
//
//  d          x - ch = dh + t exactly, dl = RN(t - cl). |t| <= u|dh|, and with C = |cl| / u (at most |ch|, 0 for a
//             float): |d - (dh + dl)| <= δ + u²(|dh| + C) with δ the centre's error; |dl| <= u(|dh| + C).
//  p = d r    dh rh = ph + e exactly; pl = RN(e + RN(RN(dh rl) + RN(dl rh))); dl rl is left out. With M = |dh rh|
//             and K = C|rh|: roundings u²(M + (M + K) + (2M + K) + (3M + K)), left out u²(M + K), d's error times r
//             u²(M + K) + δ|r|, r's error ε times d: |p - (ph + pl)| <= (9u² + ε/|rh|) M + 5u² K + δ|r| + ε u C;
//             |pl| <= u(3M + K).
//  q = p w    w = wh + wl exactly (wl = 0 without 1+w). ph wh = qh + f exactly, low = RN(f + RN(RN(pl wh) + RN(ph
//             wl))), pl wl left out: u²((3M + K) + M + (4M + K) + (5M + K) + (3M + K)) |wh| more; |low| <= u(5M +
//             K)|wh|. In all (25u² + ε/|rh|) M|wh| + (9u² K + δ|r| + ε u C)|wh|.
//  y = q + b  qh + b = yh + t exactly, yl = RN(t + low): |t| <= u|yh|, so u²|yh| + u²(5M + K)|wh| more, and
//             |yl| <= u|yh| + u(5M + K)|wh|.
//             |y - (yh + yl)| <= (30u² + ε/|rh|)|qh| + ((10u² C + δ)|r| + ε u C)|wh| + u²|yh|.
//  rounding   By rounding-inl.h. Its 2u|yl| is 10u²|qh| + 2u² K|wh| more in the bound, and 2u²|yh|.
//
// Range. x is a multiple of 2^-149 below 2^128; a centre is a float, a mean, or a float over a weight: its high part
// is 0 or a multiple of 2^-330 below 2^278, and so is d's; the high part of r is a multiple of 2^-192 (r >= 2^-139
// where it is not a float) below 2^265 (statistics.cpp), that of w of 2^-149. Products of the high parts and their
// low parts are multiples of 2^-671, and exact. Low parts may reach further down (a quotient's or a root's has 53 bits
// below its own leading one); what underflows in their products is at most 2^-1075, far below the spare 2u²|qh| where
// qh is not 0. |d r| <= sqrt(n) from own values and below 2^278+149 from given ones, so no product reaches 2^600. beta
// is a float.
#include "reference/truth/tiers/elements.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/truth/tiers/elements.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "reference/truth/tiers/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::tiers {
namespace HWY_NAMESPACE {

constexpr auto width = static_cast<std::int64_t>(virtual_lanes);

struct Terms {
  Eight minus_ch, minus_cl, rh, rl, relative, absolute, gamma, beta;
};

HWY_INLINE Terms terms_of(const ForwardGroup& group) {
  const double r = std::fabs(group.rstd.hi);
  const double error = group.rstd.error;
  const double low = std::fabs(group.centre.lo);  // u C
  const double relative = ((error == 0 ? 0 : error / r) + 42 * u * u) * slack;
  const double absolute = ((group.centre.error + 12 * u * low) * (r + error) + 2 * low * error) * slack;
  return {all(-group.centre.hi),
          all(-group.centre.lo),
          all(group.rstd.hi),
          all(group.rstd.lo),
          all(relative),
          all(absolute),
          all(static_cast<double>(group.gamma.value)),
          all(static_cast<double>(group.beta.value))};
}

struct Element {
  Eight hi;
  Eight lo;
  Eight bound;  // but for 3u² |hi|
};

// `bare`: no centre, and so no absolute error, and no beta. The same numbers with fewer operations.
template <bool plus_one, bool bare>
HWY_INLINE Element element(const Terms& g, const Eight& x, const Eight& gamma, const Eight& beta) {
  if constexpr (bare) {
    const Pair p = two_product(x, g.rh);
    const Pair q = two_product(p.hi, gamma);
    const Eight low = q.lo + (p.lo + x * g.rl) * gamma;
    return {q.hi, low, abs(q.hi) * g.relative};
  }
  const Pair d = two_sum(x, g.minus_ch);
  const Eight dl = d.lo + g.minus_cl;
  const Pair p = two_product(d.hi, g.rh);
  const Eight pl = p.lo + (d.hi * g.rl + dl * g.rh);
  const Pair w = plus_one ? two_sum(gamma, all(1)) : Pair{gamma, gamma};
  const Pair q = two_product(p.hi, w.hi);
  const Eight low = q.lo + (plus_one ? pl * w.hi + p.hi * w.lo : pl * w.hi);
  const Pair y = two_sum(q.hi, beta);
  return {y.hi, y.lo + low, abs(q.hi) * g.relative + abs(w.hi) * g.absolute};
}

// Calls out(position, count, element) for eight elements at a time, the last ones with a smaller count.
template <bool plus_one, bool gamma_varies, bool beta_varies, bool bare = false, typename Out>
HWY_INLINE void walk(const ForwardGroup& group, Out out) {
  const Terms g = terms_of(group);
  std::int64_t i = 0;
  for (; i + width <= group.n; i += width)
    out(i, width,
        element<plus_one, bare>(g, load(group.x + i), gamma_varies ? load(group.gamma.values + i) : g.gamma,
                                beta_varies ? load(group.beta.values + i) : g.beta));
  if (i == group.n) return;
  const std::int64_t rest = group.n - i;
  out(i, rest,
      element<plus_one, bare>(g, load_first(group.x + i, rest),
                              gamma_varies ? load_first(group.gamma.values + i, rest) : g.gamma,
                              beta_varies ? load_first(group.beta.values + i, rest) : g.beta));
}

template <typename Out>
HWY_INLINE void walk(const ForwardGroup& group, Out out) {
  const bool gamma = group.gamma.values != nullptr;
  const bool beta = group.beta.values != nullptr;
  if (group.plus_one) {
    if (gamma && beta) return walk<true, true, true>(group, out);
    if (gamma) return walk<true, true, false>(group, out);
    if (beta) return walk<true, false, true>(group, out);
    return walk<true, false, false>(group, out);
  }
  if (gamma && !beta && group.beta.value == 0 && is_zero(group.centre) && group.centre.lo == 0)
    return walk<false, true, false, true>(group, out);
  if (gamma && beta) return walk<false, true, true>(group, out);
  if (gamma) return walk<false, true, false>(group, out);
  if (beta) return walk<false, false, true>(group, out);
  return walk<false, false, false>(group, out);
}

std::int64_t RoundElements(const ForwardGroup& group, float* HWY_RESTRICT y, std::int64_t* undecided) {
  std::int64_t count = 0;
  walk(group, [&](std::int64_t i, std::int64_t elements, const Element& e) HWY_ATTR {
    count = round_eight({e.hi, e.lo}, e.bound, i, elements, y, undecided, count);
  });
  return count;
}

void StoreElements(const ForwardGroup& group, Exact* HWY_RESTRICT y) {
  static_assert(sizeof(Exact) == 3 * sizeof(double));
  walk(group, [&](std::int64_t i, std::int64_t elements, const Element& e) HWY_ATTR {
    const Pair value = two_sum(e.hi, e.lo);
    const Eight bound = e.bound + abs(e.hi) * all(3 * u * u * slack);
    if (HWY_LIKELY(elements == width)) {
      store_interleaved(value.hi, value.lo, bound, reinterpret_cast<double*>(y + i));
    } else {
      double last[3 * virtual_lanes];
      store_interleaved(value.hi, value.lo, bound, last);
      std::memcpy(y + i, last, static_cast<std::size_t>(elements) * sizeof(Exact));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::tiers
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::tiers {

HWY_EXPORT(RoundElements);
HWY_EXPORT(StoreElements);

std::int64_t round_elements(const ForwardGroup& group, float* y, std::int64_t* undecided) {
  return HWY_DYNAMIC_DISPATCH(RoundElements)(group, y, undecided);
}
void store_elements(const ForwardGroup& group, Exact* y) { HWY_DYNAMIC_DISPATCH(StoreElements)(group, y); }

}  // namespace normgate::tiers
#endif
