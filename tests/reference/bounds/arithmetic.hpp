// The arithmetic that emulated kernels share: sums in claimed orders, and a group's statistics in a claimed algorithm.
// A template over accumulator A and statistics type S, as the claim names them.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/problem/groups.hpp"
#include "tests/reference/bounds/emulated.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace normgate::emulated {

// Flush to zero and denormals are zero while it lives.
class Flushing {
 public:
  explicit Flushing(bool on) {
#if defined(__x86_64__)
    old_ = _mm_getcsr();
    if (on) _mm_setcsr(old_ | 0x8040U);
#else
    (void)on;
#endif
  }
  ~Flushing() {
#if defined(__x86_64__)
    _mm_setcsr(old_);
#endif
  }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  unsigned old_ = 0;
};

template <typename T, typename Merge>
T tree(std::vector<T> parts, Merge merge) {
  while (parts.size() > 1) {
    std::vector<T> next;
    for (std::size_t i = 0; i < parts.size(); i += 2)
      next.push_back(i + 1 < parts.size() ? merge(parts[i], parts[i + 1]) : parts[i]);
    parts = std::move(next);
  }
  return parts.front();
}

// One reduction in a claimed order: add(state, i) for elements, merge(state, state) for partial results.
template <typename T, typename Add, typename Merge>
T reduce(std::int64_t n, const Sum& sum, Add add, Merge merge) {
  const auto interleaved = [&](std::int64_t first, std::int64_t last, std::int64_t lanes) {
    std::vector<T> lane(static_cast<std::size_t>(lanes));
    for (std::int64_t i = first; i < last; ++i) add(lane[static_cast<std::size_t>((i - first) % lanes)], i);
    return tree(lane, merge);
  };
  if (sum.order == SumOrder::sequential) return interleaved(0, n, 1);
  if (sum.order == SumOrder::interleaved) return interleaved(0, n, sum.lanes);
  std::vector<T> blocks;
  for (std::int64_t first = 0; first < n; first += sum.block)
    blocks.push_back(interleaved(first, std::min(n, first + sum.block), sum.lanes));
  if (blocks.empty()) return T{};
  if (sum.order == SumOrder::pairwise) return tree(blocks, merge);
  T all = blocks.front();
  for (std::size_t b = 1; b < blocks.size(); ++b) all = merge(all, blocks[b]);
  return all;
}

template <typename T>
T multiply_add(T a, T b, T c, bool contract) {
  return contract ? std::fma(a, b, c) : a * b + c;
}

template <typename A>
struct Recurrence {
  std::int64_t count = 0;
  A mean = 0;
  A squares = 0;
};
// Mean and variance as a kernel of this claim and style computes or is given them, and 1/D.
template <typename A, typename S>
class Arithmetic {
 public:
  Arithmetic(const Problem& problem, const Inputs& inputs, const Claim& claim, const Style& style)
      : problem_(problem),
        inputs_(inputs),
        claim_(claim),
        style_(style),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_) {}

 protected:
  A sum(std::int64_t n, const auto& add) const {
    return reduce<A>(
        n, claim_.group_sum, [&](A& s, std::int64_t i) { s = add(s, i); }, [](A a, A b) { return a + b; });
  }

  A divided(A value, std::int64_t n) const {
    return claim_.divides_by_n ? value / static_cast<A>(n) : value * (A(1) / static_cast<A>(n));
  }

  // A sum of squares over n or n-1.
  S over(A squares, std::int64_t divisor, std::int64_t n) const {
    if (divisor == n || !style_.bessel_factor) return static_cast<S>(divided(squares, divisor));
    return static_cast<S>(divided(squares, n)) * (static_cast<S>(n) / static_cast<S>(divisor));
  }

  // The square of a difference on its way into a sum, in either type.
  A add_square(A s, S d) const {
    if constexpr (sizeof(A) > sizeof(S)) {
      if (style_.narrow_squares) return s + static_cast<A>(d * d);
    } else if constexpr (sizeof(A) < sizeof(S)) {
      if (!style_.narrow_squares) return s + static_cast<A>(d * d);
    }
    const auto a = static_cast<A>(d);
    return multiply_add(a, a, s, style_.contract);
  }

  Recurrence<A> welford(const std::vector<float>& x) const {
    return reduce<Recurrence<A>>(
        static_cast<std::int64_t>(x.size()), claim_.group_sum,
        [&](Recurrence<A>& w, std::int64_t i) {
          ++w.count;
          const auto value = static_cast<A>(x[static_cast<std::size_t>(i)]);
          const A d = value - w.mean;
          const auto k = static_cast<A>(w.count);
          if (claim_.divides_by_n)
            w.mean = w.mean + d / k;
          else
            w.mean = multiply_add(d, A(1) / k, w.mean, style_.contract);
          w.squares = style_.other_variance ? multiply_add(d * d, (k - 1) / k, w.squares, style_.contract)
                                            : multiply_add(d, value - w.mean, w.squares, style_.contract);
        },
        [&](const Recurrence<A>& a, const Recurrence<A>& b) {
          if (b.count == 0) return a;
          if (a.count == 0) return b;
          Recurrence<A> all;
          all.count = a.count + b.count;
          const A d = b.mean - a.mean;
          const A part = static_cast<A>(b.count) / static_cast<A>(all.count);
          all.mean = multiply_add(d, part, a.mean, style_.contract);
          all.squares = a.squares + multiply_add(d * d, static_cast<A>(a.count) * part, b.squares, style_.contract);
          return all;
        });
  }

  // Mean, and the variance over `divisor`, in the statistics type.
  struct Moments {
    S mean = 0;
    S variance = 0;
  };
  Moments moments(const std::vector<float>& x, std::int64_t divisor) const {
    const auto n = static_cast<std::int64_t>(x.size());
    const auto at = [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
    Moments result;
    if (claim_.variance == VarianceAlgorithm::welford && row_.centred) {
      const auto w = welford(x);
      result.mean = static_cast<S>(w.mean);
      result.variance = over(w.squares, divisor, n);
      return result;
    }
    const A s = row_.centred ? sum(n, [&](A t, std::int64_t i) { return t + static_cast<A>(at(i)); }) : A(0);
    result.mean = row_.centred ? static_cast<S>(divided(s, n)) : S(0);
    if (claim_.variance == VarianceAlgorithm::one_pass && row_.centred) {
      const A squares = sum(n, [&](A t, std::int64_t i) {
        const auto v = static_cast<A>(at(i));
        return multiply_add(v, v, t, style_.contract);
      });
      if (style_.other_variance) {
        const S rest = multiply_add(-static_cast<S>(s), result.mean, static_cast<S>(squares), style_.contract);
        result.variance = static_cast<S>(divided(static_cast<A>(rest), divisor));
      } else {
        result.variance = multiply_add(-result.mean, result.mean, static_cast<S>(divided(squares, n)), style_.contract);
        if (divisor != n) result.variance = result.variance * (static_cast<S>(n) / static_cast<S>(divisor));
      }
      if (style_.clamp) result.variance = std::max(result.variance, S(0));
      return result;
    }
    const A squares = sum(n, [&](A t, std::int64_t i) { return add_square(t, static_cast<S>(at(i)) - result.mean); });
    result.variance = over(squares, divisor, n);
    return result;
  }

  S inverse_root(S w) const {
    if (claim_.rsqrt_ulp == 0) return 1 / std::sqrt(w);
    const long double exact = 1 / std::sqrt(static_cast<long double>(w));
    const S rounded = static_cast<S>(exact);
    if (style_.root_direction == 0 || !std::isfinite(rounded) || exact == 0) return rounded;
    // As far as is allowed: the last number within rsqrt_ulp units of the exact value.
    const long double unit = std::ldexp(1.0L, std::ilogb(exact) - (sizeof(S) == 4 ? 23 : 52));
    const long double far = exact + style_.root_direction * static_cast<long double>(claim_.rsqrt_ulp) * unit;
    S result = static_cast<S>(far);
    if (style_.root_direction > 0 ? static_cast<long double>(result) > far : static_cast<long double>(result) < far)
      result = std::nextafter(result, rounded);
    return result;
  }

  // v + eps or sqrt(v) + eps, in double where the convention keeps eps in double.
  S plus_eps(S v) const {
    if (problem_.convention.scalars == Scalars::float64) return static_cast<S>(static_cast<double>(v) + problem_.eps);
    return v + static_cast<S>(static_cast<float>(problem_.eps));
  }

  S reciprocal(S v) const {
    switch (problem_.convention.eps) {
      case EpsPlacement::outside:
        if (claim_.rsqrt_ulp == 0 || v == 0) return 1 / plus_eps(std::sqrt(v));
        return 1 / plus_eps(style_.other_variance ? v * inverse_root(v) : 1 / inverse_root(v));
      case EpsPlacement::floor: {
        const S eps = problem_.convention.scalars == Scalars::float64
                          ? static_cast<S>(problem_.eps)
                          : static_cast<S>(static_cast<float>(problem_.eps));
        return inverse_root(std::max(v, eps));
      }
      case EpsPlacement::inside:
        break;
    }
    return inverse_root(plus_eps(v));
  }

  // Of a training, of x; a single value under n-1 is what the convention says.
  Moments own(const std::vector<float>& x) const {
    const auto n = static_cast<std::int64_t>(x.size());
    const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    Moments m = moments(x, n_minus_1 && n > 1 ? n - 1 : n);
    if (n_minus_1 && n == 1) m.variance = problem_.convention.single == SingleCount::nan ? S(NAN) : S(0);
    return m;
  }

  // Mean and 1/D of group q, as they are given or handed; `variance` is NaN where the reciprocal is.
  struct Given {
    S mean = 0;
    S variance = 0;
    S rstd = 0;
  };
  Given given(std::int64_t q) const {
    Given g;
    if (problem_.given == normgate::Given::running) {
      const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.running, groups_.origin(q)));
      g.mean = static_cast<S>(inputs_[Role::running_mean][c]);
      g.variance = static_cast<S>(inputs_[Role::running_var][c]);
      if (problem_.convention.momentum == MomentumForm::accumulated_weight) {
        const float weight = inputs_[Role::running_weight][0];
        const auto factor = [&](S v) {
          return claim_.divides_by_n ? v / static_cast<S>(weight) : v * static_cast<S>(1 / weight);
        };
        g.mean = factor(g.mean);
        g.variance = factor(g.variance);
      }
      g.rstd = reciprocal(g.variance);
      return g;
    }
    const auto at = static_cast<std::size_t>(q);
    if (!inputs_[Role::mean].empty()) g.mean = static_cast<S>(inputs_[Role::mean][at]);
    const auto stat = static_cast<S>(inputs_[Role::stat][at]);
    const bool is_reciprocal = problem_.convention.saved == SavedStatistic::rstd;
    g.variance = is_reciprocal ? S(NAN) : stat;
    g.rstd = is_reciprocal ? stat : reciprocal(stat);
    return g;
  }

  S gamma(std::size_t c) const {
    if (!problem_.gamma) return S(1);
    const auto w = static_cast<S>(inputs_[Role::gamma][c]);
    return problem_.convention.gamma == GammaOffset::plus_one ? S(1) + w : w;
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Claim& claim_;
  const Style& style_;
  const VariantRow& row_;
  Groups groups_;
};

}  // namespace normgate::emulated
