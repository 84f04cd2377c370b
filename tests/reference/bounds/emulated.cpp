// See emulated.hpp.
#include "tests/reference/bounds/emulated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/running.hpp"
#include "tests/reference/bounds/arithmetic.hpp"

namespace normgate::emulated {
namespace {
template <typename A, typename S>
class Kernel : Arithmetic<A, S> {
 public:
  using Base = Arithmetic<A, S>;
  using Base::Base;
  using typename Base::Moments;

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
  using Base::claim_;
  using Base::gamma;
  using Base::given;
  using Base::groups_;
  using Base::inputs_;
  using Base::moments;
  using Base::own;
  using Base::problem_;
  using Base::reciprocal;
  using Base::row_;
  using Base::style_;

  struct Taken {
    std::vector<float> mean, variance;
  };
  void group(std::int64_t q) {
    std::vector<float> x;
    groups_.for_each(q,
                     [&](std::int64_t i, const Shape&) { x.push_back(inputs_[Role::x][static_cast<std::size_t>(i)]); });
    const auto n = static_cast<std::int64_t>(x.size());
    if (n == 0) return;
    const auto at_group = static_cast<std::size_t>(q);
    S mean = 0;
    S r = 0;
    if (problem_.phase == Phase::forward_training) {
      const Moments m = own(x);
      mean = m.mean;
      r = reciprocal(m.variance);
      if (!out_[Role::mean].empty()) out_[Role::mean][at_group] = static_cast<float>(m.mean);
      if (!out_[Role::stat].empty())
        out_[Role::stat][at_group] =
            static_cast<float>(problem_.convention.saved == SavedStatistic::rstd ? r : m.variance);
      if (problem_.running) take_in(q, x, m);
    } else {
      const auto g = given(q);
      mean = g.mean;
      r = g.rstd;
    }
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
      out_[Role::y][index] = static_cast<float>(affine(static_cast<S>(inputs_[Role::x][index]), mean, r, c));
    });
  }

  S affine(S x, S mean, S r, std::size_t c) const {
    const S w = gamma(c);
    const S beta = problem_.beta ? static_cast<S>(inputs_[Role::beta][c]) : S(0);
    if (claim_.form == AffineForm::folded) {
      const S a = w * r;
      if (!row_.centred) return problem_.beta ? multiply_add(x, a, beta, style_.contract) : x * a;
      return multiply_add(x, a, multiply_add(-mean, a, beta, style_.contract), style_.contract);
    }
    const S d = row_.centred ? x - mean : x;
    S left = d * r;
    S right = w;
    if (style_.product == 1) {
      left = d;
      right = r * w;
    } else if (style_.product == 2) {
      left = d * w;
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
  if (bounds.levels.empty()) return share;  // backward
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
