// Every output as a sum of (a + b sqrt(w)) / c, all of them exact integers times powers of two.
//
// Of a group's own values: with S = Σx, Q = Σx², V = n Q - S² (n Q where the row is not centred), mean = S/n, v =
// V/M with M = n N_v. Given ones are fractions too (over an accumulated weight), so let the mean be m/l and v = V/M.
//   D = sqrt(v + eps):       D² = T/M with T = V + eps M;        r = sqrt(w)/T with w = T M
//   D = sqrt(max(v, eps)):   the same with T = max(V, eps M)
//   D = sqrt(v) + eps:       sqrt(v) = sqrt(w)/M with w = V M;   r = M/(eps M + sqrt(w)), made rational in its
//             divisor                by the conjugate (v = eps² apart: there sqrt(v) is rational, inverse() in
//             dyadic-inl.h)
//   r is handed:             w = 0
// x - mean = (l x - m)/l, and y = gamma (x - mean) r + beta.
//
// Backward, with g = dy gamma, G = Σg, H = Σg x and the definition's response s (gradient-inl.h), all in the field
// of the group's sqrt(w):
//   dx_j = r (n g_j - G)/n - s r² K (x_j - mean'),   K = Σ g (x - mean) / N_v = (l H - m G)/(l N_v)
// where mean' is the mean itself, and the group's own S/n in the textbook's form, in which mean(x^) is subtracted.
// From the output the last term is s (Σ dy (y - beta) / N_v) (y_j - beta)/gamma, as gamma cancels in g x^.
// dgamma = old + Σ_q r_q Σ dy (x - mean_q) over the groups q: one term for each.
//
// S, Q, G, H are fixed-point integers of at most 900 bits, summed in one pass; all else is of fixed size per group,
// per element, or per term.
#include "reference/truth/tiers/exact.hpp"

#include <cassert>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reference/problem/groups.hpp"
#include "reference/truth/running.hpp"
#include "reference/truth/tiers/dyadic-inl.h"
#include "reference/truth/tiers/root_sums-inl.h"

namespace normgate::tiers {
namespace {

// All at which `at` can be when the axes in `free` run and the others stay.
template <typename Visit>
void for_each_along(const Shape& shape, AxisSet free, const Shape& origin, Visit visit) {
  const Shape extent = restricted(shape, free);
  for (std::int64_t n = 0; n < extent[0]; ++n)
    for (std::int64_t g = 0; g < extent[1]; ++g)
      for (std::int64_t k = 0; k < extent[2]; ++k)
        for (std::int64_t s = 0; s < extent[3]; ++s)
          visit(Shape{origin[0] + n, origin[1] + g, origin[2] + k, origin[3] + s});
}

// The coordinates of the element at `index` of a dense tensor that has `axes`; 0 on the others.
Shape coordinates(const Shape& shape, AxisSet axes, std::int64_t index) {
  Shape at{};
  for (std::size_t a = axis_count; a-- > 0;) {
    if (!axes.has(a)) continue;
    at[a] = index % shape[a];
    index /= shape[a];
  }
  return at;
}

AxisSet both(AxisSet a, AxisSet b) {
  AxisSet result;
  for (const Axis axis : {Axis::n, Axis::g, Axis::k, Axis::s})
    if (a.has(axis) && b.has(axis)) result.insert(axis);
  return result;
}

constexpr AxisSet every_axis{Axis::n, Axis::g, Axis::k, Axis::s};

Dyadic magnitude(const Dyadic& value) { return value.sign() < 0 ? -value : value; }

// numerator / divisor, divisor > 0.
struct Fraction {
  Dyadic numerator;
  Dyadic divisor{1};
};

// The statistics that a group is normalized with. What the definition has no finite number for stands as 0.
struct Statistics {
  Fraction mean;
  Fraction variance;
  Dyadic w;
  Surd rstd;
  Surd response;
};

// dx_j = (own g_j' - pull d_j' ) with g' = n g_j - G and d' the direction's numerator.
struct Gradient {
  Dyadic w;
  Dyadic own_a, own_b;    // of n g - G
  Dyadic pull_a, pull_b;  // of the direction
  Dyadic divisor;
  Dyadic sum_of_g;
  Fraction centre;  // of the direction: its divisor times x minus its numerator
};

}  // namespace

class ExactValues::Expressions {
 public:
  Expressions(const Problem& problem, const Inputs& inputs, SavedUse use)
      : problem_(problem),
        inputs_(inputs),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        n_(groups_.size()),
        training_(is_training(problem.phase)),
        from_output_(problem.phase == Phase::backward_training && problem.from_output),
        handed_(problem.phase == Phase::backward_training && !from_output_ && problem.saved &&
                (use == SavedUse::short_form || use == SavedUse::textbook)),
        textbook_(handed_ && row_.centred && use == SavedUse::textbook),
        has_beta_(use_of(problem, Role::beta).read),
        eps_(exactly(problem.eps)) {
    const bool n_minus_1 = row_.centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1;
    degrees_ = n_minus_1 ? n_ - 1 : n_;
  }

  // The element as a sum, collected; valid until the next call.
  const std::vector<Term>& of(Role role, std::size_t at) {
    terms_.clear();
    switch (role) {
      case Role::y:
        output(at);
        break;
      case Role::mean:
        rational(statistics(static_cast<std::int64_t>(at)).mean);
        break;
      case Role::stat: {
        const Statistics& group = statistics(static_cast<std::int64_t>(at));
        if (problem_.convention.saved == SavedStatistic::variance) {
          rational(group.variance);
        } else {
          terms_.push_back({group.rstd.a, group.rstd.b, group.rstd.c, group.w});
        }
        break;
      }
      case Role::running_mean:
      case Role::running_var:
      case Role::running_weight:
        running(role, at);
        break;
      case Role::dx:
        input_gradient(at);
        break;
      case Role::dgamma:
        gamma_gradient(at);
        break;
      case Role::dbeta:
        beta_gradient(at);
        break;
      default:
        assert(false && "a role that no problem writes");
    }
    collect(terms_);
    return terms_;
  }

 private:
  [[nodiscard]] float input(Role role, std::int64_t at) const { return inputs_[role][static_cast<std::size_t>(at)]; }
  [[nodiscard]] std::int64_t element(const Shape& at) const { return dense_index(problem_.shape, every_axis, at); }
  [[nodiscard]] std::int64_t channel(const Shape& at) const { return dense_index(problem_.shape, row_.affine, at); }
  void rational(const Fraction& value) { terms_.push_back({value.numerator, {}, value.divisor, {}}); }

  [[nodiscard]] Dyadic gamma(std::int64_t c) const {
    if (!problem_.gamma) return 1;
    const Dyadic w = exactly(static_cast<double>(input(Role::gamma, c)));
    return problem_.convention.gamma == GammaOffset::plus_one ? w + 1 : w;
  }
  [[nodiscard]] Dyadic beta(std::int64_t c) const {
    return has_beta_ ? exactly(static_cast<double>(input(Role::beta, c))) : Dyadic();
  }

  // 1/D and the definition's response, of a variance whose D is positive.
  void deviate(Statistics& group) const {
    const auto& [v, m] = group.variance;
    const Dyadic floor = eps_ * m;
    const EpsPlacement placement = problem_.convention.eps;
    if (placement == EpsPlacement::outside) {
      if (v.sign() < 0) return;
      group.w = v * m;
      group.rstd = inverse({floor, 1, m}, group.w);
      if (v.sign() > 0) group.response = {0, 1, v};  // M / sqrt(V M) = sqrt(V M) / V
      return;
    }
    const bool above = order(v, floor) > 0;
    Dyadic t;
    if (placement == EpsPlacement::inside) {
      t = v + floor;
    } else {
      t = above ? v : floor;
    }
    if (t.sign() <= 0) return;
    group.w = t * m;
    group.rstd = {0, 1, t};
    if (placement == EpsPlacement::inside || above) group.response = group.rstd;
  }

  // What is given in place of 1/D. 1/sqrt(v) is r/(1 - r eps) where eps stands outside, and v > eps means 1 > eps r².
  void deviate_by(Statistics& group, const Dyadic& rstd) const {
    group.rstd = {rstd, 0, 1};
    switch (problem_.convention.eps) {
      case EpsPlacement::inside:
        group.response = group.rstd;
        break;
      case EpsPlacement::outside: {
        const Dyadic rest = Dyadic(1) - rstd * eps_;
        if (rest.sign() != 0) group.response = scaled(group.rstd, 1, rest);
        break;
      }
      case EpsPlacement::floor:
        if (order(1, eps_ * rstd * rstd) > 0) group.response = group.rstd;
        break;
    }
  }

  // Σx and n Σx² - (Σx)².
  struct Moments {
    Dyadic sum;
    Dyadic spread;
    bool finite = true;
  };
  [[nodiscard]] Moments moments(std::int64_t q) const {
    FixedPoint sum;
    FixedPoint squares;
    bool finite = true;
    groups_.for_each(q, [&](std::int64_t i, const Shape&) {
      if (!std::isfinite(input(Role::x, i))) finite = false;
      const Factor x = factor(input(Role::x, i));
      if (row_.centred) sum.add(x);
      squares.add(x * x);
    });
    Moments result{sum.value(), Dyadic(n_) * squares.value(), finite};
    result.spread = result.spread - result.sum * result.sum;
    return result;
  }

  [[nodiscard]] Statistics own_statistics(std::int64_t q) const {
    Statistics group;
    if (n_ == 0) return group;
    const Moments of_x = moments(q);
    group.mean = {of_x.sum, n_};
    // One value under n-1 has the variance 0 where it has one.
    if (degrees_ > 0) group.variance = {of_x.spread, Dyadic(n_) * Dyadic(degrees_)};
    // Over an infinite mean square 1/D is 0, and what is finite in the group still has an x^, which is 0.
    if (degrees_ == 0 || of_x.finite) deviate(group);
    return group;
  }

  [[nodiscard]] Statistics given_statistics(std::int64_t q) const {
    Statistics group;
    double mean = 0;
    double variance = 0;
    Dyadic weight = 1;
    if (problem_.given == Given::running) {
      const std::int64_t c = dense_index(problem_.shape, row_.running, groups_.origin(q));
      mean = static_cast<double>(input(Role::running_mean, c));
      variance = static_cast<double>(input(Role::running_var, c));
      if (problem_.convention.momentum == MomentumForm::accumulated_weight) {
        const double accumulated = static_cast<double>(input(Role::running_weight, 0));
        weight = exactly(accumulated);
        // Nothing accumulated counts as statistics of 0, and over an infinite weight they are.
        if (weight.sign() == 0) {
          mean = variance = 0;
          weight = 1;
        }
      }
    } else {
      if (row_.centred && !from_output_) mean = static_cast<double>(input(Role::mean, q));
      variance = static_cast<double>(input(Role::stat, q));
    }
    const Dyadic sign = weight.sign();
    group.mean = {exactly(mean) * sign, magnitude(weight)};
    if (problem_.given != Given::running && problem_.convention.saved == SavedStatistic::rstd) {
      deviate_by(group, exactly(variance));
      return group;
    }
    group.variance = {exactly(variance) * sign, magnitude(weight)};
    // Over an infinite variance 1/D and the response are 0; a floor is above a negative infinite one.
    if (std::isinf(variance) && (variance < 0) == (weight.sign() > 0)) {
      group.variance = {};
      if (problem_.convention.eps != EpsPlacement::floor) return group;
    } else if (!std::isfinite(variance)) {
      return group;
    }
    deviate(group);
    return group;
  }

  const Statistics& statistics(std::int64_t q) {
    if (const auto found = statistics_.find(q); found != statistics_.end()) return found->second;
    if (statistics_.size() >= most_kept) statistics_.clear();
    const bool own = training_ && !handed_ && !from_output_;
    return statistics_.emplace(q, own ? own_statistics(q) : given_statistics(q)).first->second;
  }

  // y = gamma (l x - m)/l r + beta.
  void output(std::size_t index) {
    const Shape at = coordinates(problem_.shape, every_axis, static_cast<std::int64_t>(index));
    const Statistics& group = statistics(group_index(problem_, at));
    const std::int64_t c = channel(at);
    const Dyadic x = exactly(static_cast<double>(input(Role::x, static_cast<std::int64_t>(index))));
    const Dyadic centred = gamma(c) * (group.mean.divisor * x - group.mean.numerator);
    const Dyadic divisor = group.mean.divisor * group.rstd.c;
    terms_.push_back({centred * group.rstd.a + beta(c) * divisor, centred * group.rstd.b, divisor, group.w});
  }

  // (keep old + take batch) / divisor.
  struct Weights {
    Dyadic keep;
    Dyadic take;
    Dyadic divisor{1};
  };
  [[nodiscard]] Weights weights() const {
    const Dyadic momentum = exactly(problem_.momentum);
    switch (problem_.convention.momentum) {
      case MomentumForm::new_weight:
        return {Dyadic(1) - momentum, momentum};
      case MomentumForm::old_weight:
        return {momentum, Dyadic(1) - momentum};
      case MomentumForm::cumulative:
        return {problem_.step - 1, 1, problem_.step};
      case MomentumForm::accumulated_weight:
        break;
    }
    return {momentum, 1};
  }

  void running(Role role, std::size_t index) {
    const Dyadic old = exactly(static_cast<double>(inputs_[role][index]));
    const bool any = updates_state(n_) && groups_.count() > 0;
    if (!any || (role == Role::running_var && keeps_variance(problem_.convention, n_))) return rational({old, 1});
    if (role == Role::running_weight) return rational({exactly(problem_.momentum) * old + 1, 1});
    const bool n_minus_1 = problem_.convention.stored == StoredDivisor::n_minus_1;
    const std::int64_t degrees = n_minus_1 ? n_ - 1 : n_;
    // Averages over the groups of the channel: one for batch_norm, N for instance_norm.
    Dyadic sum;
    std::int64_t count = 0;
    const AxisSet others = both(row_.reduced.complement(), row_.running.complement());
    const Shape origin = coordinates(problem_.shape, row_.running, static_cast<std::int64_t>(index));
    for_each_along(problem_.shape, others, origin, [&](const Shape& at) {
      const Moments of_x = moments(group_index(problem_, at));
      sum = sum + (role == Role::running_mean ? of_x.sum : of_x.spread);
      ++count;
    });
    Dyadic divisor = Dyadic(count) * Dyadic(n_);
    if (role == Role::running_var) {
      if (degrees == 0) sum = 0;  // one value under n-1, where its variance counts as 0
      if (degrees > 0) divisor = divisor * Dyadic(degrees);
    }
    const Weights step = weights();
    rational({step.keep * old * divisor + step.take * sum, step.divisor * divisor});
  }

  [[nodiscard]] Gradient differentiate(std::int64_t q) {
    const Statistics& group = statistics(q);
    FixedPoint of_g;
    FixedPoint of_products;  // g x, or dy (y - beta) from the output
    const bool plus_one = problem_.gamma && problem_.convention.gamma == GammaOffset::plus_one;
    const Role normalized = from_output_ ? Role::y : Role::x;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const std::int64_t c = channel(at);
      const Factor dy = factor(input(Role::dy, i));
      const Factor x = factor(input(normalized, i));
      const auto add = [&](const Factor& g) {
        if (row_.centred) of_g.add(g);
        if (!from_output_) of_products.add(g * x);
      };
      if (!problem_.gamma || plus_one) add(dy);
      if (problem_.gamma) add(dy * factor(input(Role::gamma, c)));
      if (!from_output_) return;
      of_products.add(dy * x);
      if (has_beta_) of_products.subtract(dy * factor(input(Role::beta, c)));
    });
    Gradient result;
    result.w = group.w;
    result.sum_of_g = of_g.value();
    const Dyadic products = of_products.value();
    Surd pull;
    if (degrees_ > 0) {
      if (from_output_) {
        pull = scaled(group.response, products, degrees_);
      } else {
        const auto& [m, l] = group.mean;
        pull = times(times(group.rstd, group.rstd, group.w), group.response, group.w);
        pull = scaled(pull, l * products - m * result.sum_of_g, l * Dyadic(degrees_));
        result.centre = textbook_ ? Fraction{moments(q).sum, n_} : group.mean;
        pull = scaled(pull, 1, result.centre.divisor);
      }
    }
    const Surd own = scaled(group.rstd, 1, n_);
    result.own_a = own.a * pull.c;
    result.own_b = own.b * pull.c;
    result.pull_a = pull.a * own.c;
    result.pull_b = pull.b * own.c;
    result.divisor = own.c * pull.c;
    shorten(result);
    return result;
  }

  // What the five integers of a group have in common goes, once, as every element is multiplied by them.
  static void shorten(Gradient& group) {
    mpz_class common = group.divisor.m;
    const auto parts = {&group.own_a, &group.own_b, &group.pull_a, &group.pull_b};
    for (const Dyadic* part : parts) common = gcd(common, part->m);
    for (Dyadic* part : parts) part->m /= common;
    group.divisor.m /= common;
  }

  const Gradient& gradient(std::int64_t q) {
    if (const auto found = gradients_.find(q); found != gradients_.end()) return found->second;
    if (gradients_.size() >= most_kept) gradients_.clear();
    return gradients_.emplace(q, differentiate(q)).first->second;
  }

  void input_gradient(std::size_t index) {
    const Shape at = coordinates(problem_.shape, every_axis, static_cast<std::int64_t>(index));
    const auto i = static_cast<std::int64_t>(index);
    const std::int64_t q = group_index(problem_, at);
    const std::int64_t c = channel(at);
    const Dyadic g = exactly(static_cast<double>(input(Role::dy, i))) * gamma(c);
    if (!training_) {
      const Statistics& group = statistics(q);
      terms_.push_back({g * group.rstd.a, g * group.rstd.b, group.rstd.c, group.w});
      return;
    }
    const Gradient& group = gradient(q);
    Dyadic own = Dyadic(n_) * g - group.sum_of_g;
    Dyadic direction;
    Dyadic divisor = group.divisor;
    if (from_output_) {
      direction = exactly(static_cast<double>(input(Role::y, i))) - beta(c);
      const Dyadic of_gamma = gamma(c);
      if (of_gamma.sign() < 0) direction = -direction;
      own = own * magnitude(of_gamma);
      divisor = divisor * magnitude(of_gamma);
    } else {
      direction = group.centre.divisor * exactly(static_cast<double>(input(Role::x, i))) - group.centre.numerator;
    }
    terms_.push_back(
        {group.own_a * own - group.pull_a * direction, group.own_b * own - group.pull_b * direction, divisor, group.w});
  }

  void add_old(Role role, std::size_t index) {
    if (problem_.convention.gradients != Gradients::accumulate) return;
    rational({exactly(static_cast<double>(inputs_[role][index])), 1});
  }

  void gamma_gradient(std::size_t index) {
    const auto c = static_cast<std::int64_t>(index);
    add_old(Role::dgamma, index);
    const Shape origin = coordinates(problem_.shape, row_.affine, c);
    if (from_output_) {
      FixedPoint sum;
      for_each_along(problem_.shape, row_.affine.complement(), origin, [&](const Shape& at) {
        const std::int64_t i = element(at);
        const Factor dy = factor(input(Role::dy, i));
        sum.add(dy * factor(input(Role::y, i)));
        if (has_beta_) sum.subtract(dy * factor(input(Role::beta, c)));
      });
      // Without elements, or over an infinite gamma, all is 0.
      const Dyadic divisor = gamma(c);
      if (divisor.sign() == 0 || (problem_.gamma && !std::isfinite(input(Role::gamma, c)))) return;
      const Dyadic total = sum.value();
      rational({divisor.sign() < 0 ? -total : total, magnitude(divisor)});
      return;
    }
    const AxisSet across = both(row_.affine.complement(), row_.reduced.complement());
    const AxisSet within = both(row_.affine.complement(), row_.reduced);
    for_each_along(problem_.shape, across, origin, [&](const Shape& first) {
      FixedPoint of_dy;
      FixedPoint of_products;
      for_each_along(problem_.shape, within, first, [&](const Shape& at) {
        const std::int64_t i = element(at);
        const Factor dy = factor(input(Role::dy, i));
        of_products.add(dy * factor(input(Role::x, i)));
        if (row_.centred) of_dy.add(dy);
      });
      if (n_ == 0) return;
      const Statistics& group = statistics(group_index(problem_, first));
      const auto& [m, l] = group.mean;
      const Dyadic sum = l * of_products.value() - m * of_dy.value();
      if (sum.sign() != 0) terms_.push_back({group.rstd.a * sum, group.rstd.b * sum, group.rstd.c * l, group.w});
    });
  }

  void beta_gradient(std::size_t index) {
    add_old(Role::dbeta, index);
    FixedPoint sum;
    const Shape origin = coordinates(problem_.shape, row_.affine, static_cast<std::int64_t>(index));
    for_each_along(problem_.shape, row_.affine.complement(), origin,
                   [&](const Shape& at) { sum.add(factor(input(Role::dy, element(at)))); });
    rational({sum.value(), 1});
  }

  static constexpr std::size_t most_kept = std::size_t{1} << 16U;

  const Problem& problem_;
  const Inputs& inputs_;
  const VariantRow& row_;
  Groups groups_;
  std::int64_t n_;
  std::int64_t degrees_ = 0;  // the divisor of the normalizing variance; 0: one value under n-1
  bool training_;
  bool from_output_;
  bool handed_;
  bool textbook_;
  bool has_beta_;
  Dyadic eps_;
  std::vector<Term> terms_;
  std::unordered_map<std::int64_t, Statistics> statistics_;
  std::unordered_map<std::int64_t, Gradient> gradients_;
};

ExactValues::ExactValues(const Problem& problem, const Inputs& inputs, SavedUse use)
    : expressions_(std::make_unique<Expressions>(problem, inputs, use)) {}
ExactValues::~ExactValues() = default;

ExactValues::Comparison ExactValues::compare(Role role, std::size_t at, double numerator, double divisor) {
  const Sign sign = sign_of_sum(expressions_->of(role, at), exactly(numerator), exactly(divisor));
  return {sign.sign, sign.by_intervals ? ExactBy::intervals : ExactBy::algebra};
}

ExactValues::Rounding ExactValues::round(Role role, std::size_t at, Format format, const RoundedEnds& ends) {
  const std::vector<Term>& terms = expressions_->of(role, at);
  Rounding result{0, ExactBy::intervals};
  const auto side_of = [&](double boundary) {
    const Sign sign = sign_of_sum(terms, exactly(boundary), 1);
    if (!sign.by_intervals) result.by = ExactBy::algebra;
    return sign.sign;
  };
  std::int64_t low = ordinal_of(ends.low, format);
  std::int64_t high = ordinal_of(ends.high, format);
  // A zero is what is most often undecided, and its enclosure holds many values.
  if (low < 0 && high > 0) {
    const int sign = side_of(0);
    if (sign == 0) return result;
    (sign < 0 ? high : low) = 0;
  }
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const int side = side_of(midpoint_above(middle, format));
    if (side == 0) {
      low = high = middle % 2 == 0 ? middle : middle + 1;
    } else if (side > 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  result.value = value_at(low, format);
  return result;
}

}  // namespace normgate::tiers
