// See emulated.hpp. The arithmetic is a template over accumulator A and statistics type S, as the claim names them.
#include "tests/reference/bounds/emulated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/running.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace normgate::emulated {
namespace {

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

template <typename A, typename S>
class Kernel {
 public:
  Kernel(const Problem& problem, const Inputs& inputs, const Claim& claim, const Style& style)
      : problem_(problem),
        inputs_(inputs),
        claim_(claim),
        style_(style),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_) {}

  Inputs run() {
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (use_of(problem_, role).write)
        out_[role] = inputs_[role].empty() ? std::vector<float>(static_cast<std::size_t>(
                                                 element_count(restricted(problem_.shape, axes_of(role, row_)))))
                                           : inputs_[role];
    }
    batch_.resize(out_[Role::running_var].size());
    for (std::int64_t q = 0; q < groups_.count(); ++q) group(q);
    if (problem_.running) update();
    return std::move(out_);
  }

 private:
  struct Taken {
    std::vector<float> mean, variance;
  };

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

  void group(std::int64_t q) {
    std::vector<float> x;
    groups_.for_each(q,
                     [&](std::int64_t i, const Shape&) { x.push_back(inputs_[Role::x][static_cast<std::size_t>(i)]); });
    const auto n = static_cast<std::int64_t>(x.size());
    if (n == 0) return;
    const auto at_group = static_cast<std::size_t>(q);
    Moments m;
    S r = 0;
    if (problem_.phase == Phase::forward_training) {
      const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
      m = moments(x, n_minus_1 && n > 1 ? n - 1 : n);
      if (n_minus_1 && n == 1) m.variance = problem_.convention.single == SingleCount::nan ? S(NAN) : S(0);
      r = reciprocal(m.variance);
      if (!out_[Role::mean].empty()) out_[Role::mean][at_group] = static_cast<float>(m.mean);
      if (!out_[Role::stat].empty())
        out_[Role::stat][at_group] =
            static_cast<float>(problem_.convention.saved == SavedStatistic::rstd ? r : m.variance);
      if (problem_.running) take_in(q, x, m);
    } else if (problem_.given == Given::running) {
      const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.running, groups_.origin(q)));
      m.mean = static_cast<S>(inputs_[Role::running_mean][c]);
      m.variance = static_cast<S>(inputs_[Role::running_var][c]);
      if (problem_.convention.momentum == MomentumForm::accumulated_weight) {
        const float weight = inputs_[Role::running_weight][0];
        const auto factor = [&](S v) {
          return claim_.divides_by_n ? v / static_cast<S>(weight) : v * static_cast<S>(1 / weight);
        };
        m.mean = factor(m.mean);
        m.variance = factor(m.variance);
      }
      r = reciprocal(m.variance);
    } else {
      if (row_.centred) m.mean = static_cast<S>(inputs_[Role::mean][at_group]);
      const auto stat = static_cast<S>(inputs_[Role::stat][at_group]);
      r = problem_.convention.saved == SavedStatistic::rstd ? stat : reciprocal(stat);
    }
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
      out_[Role::y][index] = static_cast<float>(affine(static_cast<S>(inputs_[Role::x][index]), m.mean, r, c));
    });
  }

  S affine(S x, S mean, S r, std::size_t c) const {
    S gamma = problem_.gamma ? static_cast<S>(inputs_[Role::gamma][c]) : S(1);
    if (problem_.gamma && problem_.convention.gamma == GammaOffset::plus_one) gamma = S(1) + gamma;
    const S beta = problem_.beta ? static_cast<S>(inputs_[Role::beta][c]) : S(0);
    if (claim_.form == AffineForm::folded) {
      const S a = gamma * r;
      if (!row_.centred) return problem_.beta ? multiply_add(x, a, beta, style_.contract) : x * a;
      return multiply_add(x, a, multiply_add(-mean, a, beta, style_.contract), style_.contract);
    }
    const S d = row_.centred ? x - mean : x;
    S left = d * r;
    S right = gamma;
    if (style_.product == 1) {
      left = d;
      right = r * gamma;
    } else if (style_.product == 2) {
      left = d * gamma;
      right = r;
    }
    return problem_.beta ? multiply_add(left, right, beta, style_.contract) : left * right;
  }

  void take_in(std::int64_t q, const std::vector<float>& x, const Moments& m) {
    const auto n = static_cast<std::int64_t>(x.size());
    const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.running, groups_.origin(q)));
    const bool n_minus_1 = problem_.convention.stored == StoredDivisor::n_minus_1;
    const bool from_n_minus_1 = problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    S v = m.variance;
    if (n == 1) {
      v = n_minus_1 ? (problem_.convention.single == SingleCount::nan ? S(NAN) : S(0)) : moments(x, 1).variance;
    } else if (n_minus_1 != from_n_minus_1) {
      if (style_.other_variance)
        v = moments(x, n_minus_1 ? n - 1 : n).variance;  // divided anew
      else
        v = n_minus_1 ? v * (static_cast<S>(n) / static_cast<S>(n - 1))
                      : v * (static_cast<S>(n - 1) / static_cast<S>(n));
    }
    batch_[c].mean.push_back(static_cast<float>(m.mean));
    batch_[c].variance.push_back(static_cast<float>(v));
  }

  float step(float old, float batch) const {
    const auto weights =
        update_weights(problem_.convention.momentum, static_cast<float>(problem_.momentum), problem_.step);
    const auto o = static_cast<S>(old);
    const auto b = static_cast<S>(batch);
    const auto take = static_cast<S>(weights.take);
    if (style_.other_update && problem_.convention.momentum != MomentumForm::accumulated_weight)
      return static_cast<float>(multiply_add(take, b - o, o, style_.contract));
    return static_cast<float>(multiply_add(static_cast<S>(weights.keep), o, take * b, style_.contract));
  }

  float mean_of(const std::vector<float>& v) const {
    const auto n = static_cast<std::int64_t>(v.size());
    const float s = reduce<float>(
        n, claim_.across_groups, [&](float& t, std::int64_t i) { t += v[static_cast<std::size_t>(i)]; },
        [](float a, float b) { return a + b; });
    return claim_.divides_by_n ? s / static_cast<float>(n) : s * (1 / static_cast<float>(n));
  }

  void update() {
    for (std::size_t c = 0; c < batch_.size(); ++c) {
      if (batch_[c].mean.empty()) continue;
      const auto one = [&](Role role, const std::vector<float>& values) {
        float& old = out_[role][c];
        if (!style_.update_then_mean || values.size() == 1) {
          old = step(old, values.size() == 1 ? values[0] : mean_of(values));
          return;
        }
        std::vector<float> states;
        for (const float v : values) states.push_back(step(old, v));
        old = mean_of(states);
      };
      one(Role::running_mean, batch_[c].mean);
      if (!keeps_variance(problem_.convention, groups_.size())) one(Role::running_var, batch_[c].variance);
    }
    if (!out_[Role::running_weight].empty() && groups_.size() > 0 && groups_.count() > 0) {
      float& weight = out_[Role::running_weight][0];
      weight = multiply_add(static_cast<float>(problem_.momentum), weight, 1.0F, style_.contract);
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Claim& claim_;
  const Style& style_;
  const VariantRow& row_;
  Groups groups_;
  Inputs out_;
  std::vector<Taken> batch_;
};

}  // namespace

Inputs run(const Problem& problem, const Inputs& inputs, const Claim& claim, const Style& style) {
  const Flushing flushing(claim.subnormals == Subnormals::flushed);
  const bool a = claim.accumulator == ScalarType::float64;
  const bool s = claim.statistics == ScalarType::float64;
  if (a && s) return Kernel<double, double>(problem, inputs, claim, style).run();
  if (a) return Kernel<double, float>(problem, inputs, claim, style).run();
  if (s) return Kernel<float, double>(problem, inputs, claim, style).run();
  return Kernel<float, float>(problem, inputs, claim, style).run();
}

Share share_of_bound(const Problem& problem, const Inputs& inputs, const Truth& truth, const Bounds& bounds,
                     const Inputs& outputs) {
  Share share;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    for (std::size_t i = 0; i < truth.out[role].size(); ++i) {
      const double tolerance = bounds.tolerance[role][i];
      if (tolerance == infinity) {
        ++share.not_judged;
        continue;
      }
      ++share.judged;
      const Exact& exact = truth.out[role][i];
      const auto got = static_cast<double>(outputs[role][i]);
      const double error = distance(got, exact);
      const double part = error == 0 ? 0 : error / (tolerance + exact.bound);
      if (part <= share.worst) continue;  // also a NaN tolerance would stop here: it must not be
      share.worst = std::isnan(part) ? infinity : part;
      share.where = fmt::format("{}[{}] got {} want {} tolerance {:.3g} (mean {:.6g}, variance {:.6g})", name_of(role),
                                i, got, exact.hi, tolerance, truth.groups.empty() ? 0 : truth.groups[0].mean.hi,
                                truth.groups.empty() ? 0 : truth.groups[0].variance.hi);
    }
  }
  const VariantRow& row = row_of(problem.variant);
  const Groups groups(problem.shape, row);
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const GroupLevels& levels = bounds.levels[static_cast<std::size_t>(q)];
    if (levels.gain_bound == infinity) continue;
    const GroupTruth& exact = truth.groups[static_cast<std::size_t>(q)];
    long double gain = 0, square = 0, offset = 0, doubt = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const auto c = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
      const double weight = problem.gamma ? static_cast<double>(inputs[Role::gamma][c]) +
                                                (problem.convention.gamma == GammaOffset::plus_one ? 1.0 : 0.0)
                                          : 1.0;
      const auto x = static_cast<double>(inputs[Role::x][index]);
      const long double d = row.centred ? (static_cast<long double>(x) - exact.mean.hi) - exact.mean.lo : x;
      const long double g = weight * d * exact.rstd.hi;
      const Exact& y = truth.out[Role::y][index];
      const long double e = (static_cast<long double>(outputs[Role::y][index]) - y.hi) - y.lo;
      gain += e * g;
      square += g * g;
      offset += e;
      doubt += std::fabs(e) * 0x1p-50L + y.bound;
    });
    const auto n = static_cast<long double>(groups.size());
    const auto part = [](long double value, long double bound) {
      return value == 0 ? 0.0 : static_cast<double>(std::fabs(value) / bound);
    };
    share.gain_bound = std::max(share.gain_bound, levels.gain_bound);
    share.gain = std::max(share.gain, part(gain / square, levels.gain_bound + doubt / std::sqrt(square)));
    share.offset = std::max(share.offset, part(offset / n, levels.offset_bound + doubt / n));
  }
  return share;
}

Claim draw_claim(Draw& draw) {
  Claim claim;
  claim.accumulator = draw.of({ScalarType::float32, ScalarType::float32, ScalarType::float64});
  claim.statistics = draw.of({ScalarType::float32, ScalarType::float32, ScalarType::float64});
  claim.variance = draw.of({VarianceAlgorithm::two_pass, VarianceAlgorithm::one_pass, VarianceAlgorithm::welford});
  claim.form = draw.of({AffineForm::centred, AffineForm::folded});
  const auto sum = [&] {
    Sum result;
    result.order = draw.of({SumOrder::sequential, SumOrder::interleaved, SumOrder::pairwise, SumOrder::blocked});
    result.lanes = draw.of<std::int64_t>({1, 2, 4, 5, 8, 16});
    result.block = draw.of<std::int64_t>({1, 2, 8, 20, 64});
    return result;
  };
  claim.group_sum = sum();
  claim.across_groups = sum();
  claim.rsqrt_ulp = draw.of({0.0, 0.0, 0.5, 1.0, 4.0, 3072.0});
  claim.subnormals = draw.of({Subnormals::kept, Subnormals::flushed});
  claim.divides_by_n = draw.one_in(2);
#if !defined(__x86_64__)
  claim.subnormals = Subnormals::kept;
#endif
  return claim;
}

Style draw_style(Draw& draw, const Claim& claim) {
  Style style;
  style.contract = draw.one_in(2);
#if defined(__x86_64__)
  // Without the instruction, the library's fma relies on subnormals.
  if (claim.subnormals == Subnormals::flushed && !__builtin_cpu_supports("fma")) style.contract = false;
#endif
  style.product = static_cast<int>(draw.below(3));
  style.root_direction = static_cast<int>(draw.below(3)) - 1;
  style.other_variance = draw.one_in(2);
  style.bessel_factor = draw.one_in(2);
  style.other_update = draw.one_in(2);
  style.update_then_mean = draw.one_in(2);
  style.clamp = draw.one_in(2);
  style.narrow_squares = draw.one_in(2);
  return style;
}

std::string describe(const Claim& claim, const Style& style) {
  return fmt::format(
      "accumulator float{} statistics float{} variance {} form {} sum {}/{}/{} across {}/{}/{} rsqrt {} flushed {} "
      "divides {} | contract {} product {} direction {} other_variance {} bessel {} other_update {} update_then_mean "
      "{} clamp {} "
      "narrow {}",
      claim.accumulator == ScalarType::float32 ? 32 : 64, claim.statistics == ScalarType::float32 ? 32 : 64,
      static_cast<int>(claim.variance), static_cast<int>(claim.form), static_cast<int>(claim.group_sum.order),
      claim.group_sum.lanes, claim.group_sum.block, static_cast<int>(claim.across_groups.order),
      claim.across_groups.lanes, claim.across_groups.block, claim.rsqrt_ulp, claim.subnormals == Subnormals::flushed,
      claim.divides_by_n, style.contract, style.product, style.root_direction, style.other_variance,
      style.bessel_factor, style.other_update, style.update_then_mean, style.clamp, style.narrow_squares);
}

}  // namespace normgate::emulated
