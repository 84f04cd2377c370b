// Groups whose x are c ± a, as many of each as of the other, have the mean c and the variance a², over n where n is
// even and over n-1 where one more element is c. With the right eps D is a number that divides nothing in binary (3, 7,
// 2^j times such), so that no step of the fast tier is exact, while a factor of D in gamma or dy makes the result
// exact.
#include "gate/proof/boundaries.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "gate/proof/problems.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/tiers/scalars.hpp"

namespace normgate::proof {
namespace {

using tiers::Format;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_float(double value) { return static_cast<double>(static_cast<float>(value)) == value; }
int precision_of(Format format) { return format == Format::float32 ? 24 : format == Format::bfloat16 ? 8 : 11; }
int least_of(Format format) { return format == Format::float16 ? -14 : -126; }
int greatest_of(Format format) { return format == Format::float16 ? 15 : 127; }

// a - b where it is a number of 53 bits.
std::optional<double> exact_difference(double a, double b) {
  const tiers::Two difference = tiers::two_sum(a, -b);
  if (difference.lo != 0) return std::nullopt;
  return difference.hi;
}

double power(int exponent) { return std::ldexp(1.0, exponent); }
int between(Draw& draw, int least, int most) {
  return least + static_cast<int>(draw.below(static_cast<std::uint32_t>(most - least + 1)));
}
double sign_of(Draw& draw) { return draw.coin() ? 1 : -1; }

// A midpoint, a·b·2^exponent with odd a and b of at most 24 bits each.
struct Midpoint {
  double a = 1;
  double b = 1;
  int exponent = 0;
  [[nodiscard]] double value() const { return a * b * power(exponent); }
};

// a·b of exactly `bits` bits, neither of more than 24.
std::optional<Midpoint> odd_product(Draw& draw, int bits, int exponent) {
  const int bits_of_a = bits <= 2 ? 1 : between(draw, std::max(1, bits - 23), std::min(23, bits - 1));
  const auto a = static_cast<std::int64_t>(1) +
                 2 * static_cast<std::int64_t>(draw.below(1U << static_cast<unsigned>(bits_of_a - 1)));
  const std::int64_t least = ((std::int64_t{1} << static_cast<unsigned>(bits - 1)) + a - 1) / a;
  const std::int64_t most = ((std::int64_t{1} << static_cast<unsigned>(bits)) - 1) / a;
  if (least > most) return std::nullopt;
  const std::int64_t b =
      (least + static_cast<std::int64_t>(draw.below(static_cast<std::uint32_t>(most - least + 1)))) | 1;
  if (b > most || b >= (1 << 24)) return std::nullopt;
  return Midpoint{static_cast<double>(a), static_cast<double>(b), exponent};
}

// Ordinary ones for the most part; one in four between subnormal values, one in sixteen the overflow threshold.
std::optional<Midpoint> draw_midpoint(Draw& draw, Format format) {
  const int precision = precision_of(format);
  const std::uint32_t kind = draw.below(16);
  if (kind < 4) return odd_product(draw, between(draw, 1, precision), least_of(format) - precision);
  if (kind == 4) {
    const double a = format == Format::float32 ? 31 : format == Format::bfloat16 ? 7 : 63;
    return Midpoint{a, (power(precision + 1) - 1) / a, greatest_of(format) - precision};
  }
  return odd_product(draw, precision + 1, between(draw, -20, 3));
}

// What is known of an element that lies on a midpoint or on 0 (side 0) or on that side of it.
Known known_of(Role role, std::size_t at, double boundary, int side, Format format) {
  Known known{role, at, boundary, side, 0};
  if (boundary == 0) {
    // At most half of the smallest subnormal away: nothing is nearer than 0.
    return known;
  }
  const double size = std::fabs(boundary);
  const std::int64_t below = tiers::ordinal_of(size, format);  // truncates
  const int outwards = boundary > 0 ? side : -side;
  const bool up = outwards > 0 || (outwards == 0 && below % 2 != 0);
  known.rounded = std::copysign(tiers::value_at(up ? below + 1 : below, format), boundary);
  return known;
}

// |x^| = numerator·unit_a / (divisor·unit_d) of the elements that are not at the mean.
struct Deviation {
  double a = 1;  // |x - mean|, numerator·unit_a
  double numerator = 1;
  double divisor = 1;     // D, divisor·unit_d
  int exponent = 0;       // of unit_a/unit_d
  int exponent_of_d = 0;  // of unit_d
  int side = 0;           // of the true |x^| against this one
};

class Builder {
 public:
  explicit Builder(Draw& draw, Phase phase) : draw_(draw), problem_(draw_problem(draw, phase)) {
    problem_.profile = Profile::conditioned;
    problem_.cotangent = Cotangent::random;
    problem_.kappa = 1;
    problem_.scale = 0;
    problem_.convention.scalars = Scalars::float64;
    format_ = any<Format>(draw, 3);
  }

  // Groups with as many c + a as c - a; the convention follows from their size.
  bool choose_shape() {
    for (int i = 0; i < 20; ++i) {
      problem_.shape = draw_shape(draw_, problem_.variant);
      const std::int64_t n = group_size(problem_);
      if (n < 2 || n > 40) continue;
      if (row().centred)
        problem_.convention.normalizing = n % 2 == 0 ? NormalizingDivisor::n : NormalizingDivisor::n_minus_1;
      problem_.convention.stored = n % 2 == 0 ? StoredDivisor::n : StoredDivisor::n_minus_1;
      return true;
    }
    return false;
  }

  // A deviation and the eps for it; with `tiny` D is a or 2^j but for an eps that makes it irrational.
  std::optional<Deviation> choose_deviation(bool tiny) {
    Deviation d;
    const int j = between(draw_, -12, 12);
    d.numerator = between(draw_, 1, 31);
    d.a = d.numerator * power(j);
    d.exponent_of_d = j;
    d.divisor = 2 * between(draw_, 1, 15) + 1;
    EpsPlacement& placement = problem_.convention.eps;
    if (tiny) {
      placement = EpsPlacement::inside;
      d.divisor = d.numerator;
      d.side = -1;
      problem_.eps = power(-126) * between(draw_, 1, 3);
      return d;
    }
    switch (placement) {
      case EpsPlacement::inside:
        problem_.eps = (d.divisor * d.divisor - d.numerator * d.numerator) * power(2 * j);
        break;
      case EpsPlacement::outside:
        problem_.eps = (d.divisor - d.numerator) * power(j);
        break;
      case EpsPlacement::floor:
        problem_.eps = d.divisor * d.divisor * power(2 * j);
        if (d.divisor < d.numerator) d.divisor = d.numerator;
        break;
    }
    if (problem_.eps < 0) return std::nullopt;
    return d;
  }

  void begin() {
    groups_.emplace(problem_.shape, row());
    inputs_ = make_inputs(problem_);
  }

  // Any group, or for a channel-wise sum the only one that a channel has; its elements by index.
  void choose_group() {
    group_ = draw_.below(static_cast<std::uint32_t>(groups_->count()));
    elements_.clear();
    channels_.clear();
    groups_->for_each(group_, [&](std::int64_t i, const Shape& at) {
      elements_.push_back(static_cast<std::size_t>(i));
      channels_.push_back(static_cast<std::size_t>(dense_index(problem_.shape, row().affine, at)));
    });
  }

  // Fills x of a group with the pattern. Returns the positions of c + a, then those of c - a.
  std::vector<std::size_t> fill(const Deviation& d, double c) {
    std::vector<std::size_t> order(elements_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[draw_.below(static_cast<std::uint32_t>(i + 1))]);
    const std::size_t pairs = order.size() / 2;
    for (std::size_t i = 0; i < order.size(); ++i)
      set(Role::x, elements_[order[i]], i < pairs ? c + d.a : i < 2 * pairs ? c - d.a : row().centred ? c : d.a);
    order.resize(2 * pairs);
    return order;
  }
  [[nodiscard]] double centre(const Deviation& d) {
    return row().centred ? between(draw_, -999, 999) * (d.a / d.numerator) : 0.0;
  }

  bool set(Role role, std::size_t at, double value) {
    fits_ = fits_ && at < inputs_[role].size() && is_float(value);
    if (at < inputs_[role].size()) inputs_[role][at] = static_cast<float>(value);
    touched_[role] = true;
    return fits_;
  }
  // What the element is multiplied by.
  void set_weight(std::size_t channel, double weight) {
    set(Role::gamma, channel, weight - (problem_.convention.gamma == GammaOffset::plus_one ? 1 : 0));
  }
  // Statistics as given to this group, so that D is that of `d`.
  void set_given(const Deviation& d, double c) {
    const auto q = static_cast<std::size_t>(group_);
    if (problem_.given == Given::running) {
      double weight = 1;
      if (problem_.convention.momentum == MomentumForm::accumulated_weight) {
        weight = between(draw_, 1, 5);
        set(Role::running_weight, 0, weight);
      }
      const auto channel =
          static_cast<std::size_t>(dense_index(problem_.shape, row().running, groups_->origin(group_)));
      set(Role::running_mean, channel, c * weight);
      set(Role::running_var, channel, d.a * d.a * weight);
      return;
    }
    if (row().centred) set(Role::mean, q, c);
    set(Role::stat, q, problem_.convention.saved == SavedStatistic::variance ? d.a * d.a : power(-d.exponent_of_d));
  }

  std::optional<Trial> finish(Role role, std::size_t at, double boundary, int side,
                              SavedUse use = SavedUse::recomputes) {
    if (!fits_) return std::nullopt;
    for (std::size_t r = 0; r < role_count; ++r)
      if (const auto each = static_cast<Role>(r); touched_[each]) problem_.values[each] = inputs_[each];
    if (!is_backward(problem_.phase) || problem_.phase == Phase::backward_inference) use = SavedUse::undeclared;
    if (problem_.from_output) use = SavedUse::from_output;
    if (!check(problem_).empty()) return std::nullopt;
    return Trial{problem_, use, format_, known_of(role, at, boundary, side, format_)};
  }

  [[nodiscard]] const VariantRow& row() const { return row_of(problem_.variant); }
  [[nodiscard]] Groups& groups() { return *groups_; }

  Draw& draw_;
  Problem problem_;
  Format format_{};
  Inputs inputs_;
  std::int64_t group_ = 0;
  std::vector<std::size_t> elements_;
  std::vector<std::size_t> channels_;
  bool fits_ = true;

 private:
  std::optional<Groups> groups_;
  PerRole<bool> touched_{};
};

// In an inference phase the reciprocal that is given is a power of two, and D with it.
void adapt_to_given(const Problem& problem, Deviation& d) {
  if (is_training(problem.phase) || problem.given != Given::saved || problem.convention.saved != SavedStatistic::rstd)
    return;
  d.divisor = 1;
  d.side = 0;
}

// y = ±x^·weight + beta, where weight is a multiple of D's odd part: beta is what is left to a midpoint.
std::optional<Trial> output(Draw& draw, Phase phase) {
  Builder b(draw, phase);
  b.problem_.gamma = b.problem_.beta = true;
  b.problem_.running = false;
  if (!b.choose_shape()) return std::nullopt;
  auto d = b.choose_deviation(draw.below(4) == 0);
  if (!d) return std::nullopt;
  adapt_to_given(b.problem_, *d);
  b.begin();
  b.choose_group();
  const double c = b.centre(*d);
  const auto order = b.fill(*d, c);
  if (!is_training(phase)) b.set_given(*d, c);
  const std::size_t chosen = draw.below(static_cast<std::uint32_t>(order.size()));
  const double sign = chosen < order.size() / 2 ? 1 : -1;
  const std::size_t element = order[chosen];
  // |weight x^| = t·numerator·2^e
  const double t = 2 * between(draw, 0, 500) + 1;
  const int e = between(draw, -8, 3);
  const double weight = d->divisor * t * power(e) * sign_of(draw);
  const double product = sign * weight / d->divisor * d->numerator * power(is_training(phase) ? 0 : d->exponent);
  double boundary = 0;
  if (draw.below(8) == 0) {
    boundary = 0;
  } else if (draw.coin()) {
    boundary = tiers::midpoint_above(tiers::ordinal_of(product, b.format_), b.format_);
  } else {
    const auto midpoint = draw_midpoint(draw, b.format_);
    if (!midpoint) return std::nullopt;
    boundary = midpoint->value() * sign_of(draw);
  }
  b.set_weight(b.channels_[element], weight);
  const auto beta = exact_difference(boundary, product);
  if (!beta) return std::nullopt;
  b.set(Role::beta, b.channels_[element], *beta);
  // Beside 0 by less than half a subnormal number, or not to be told by hand.
  if (boundary == 0 && d->side != 0) return std::nullopt;
  return b.finish(Role::y, b.elements_[element], boundary, product > 0 ? d->side : -d->side);
}
std::optional<Trial> output_of_training(Draw& draw) { return output(draw, Phase::forward_training); }
std::optional<Trial> output_of_inference(Draw& draw) { return output(draw, Phase::forward_inference); }

// A mean of m ± odd half units.
std::optional<Trial> mean(Draw& draw) {
  Builder b(draw, Phase::forward_training);
  b.problem_.saved = true;
  b.problem_.running = false;
  if (!b.row().centred) b.problem_.variant = Variant::group_norm;
  if (!b.choose_shape() || group_size(b.problem_) % 2 != 0) return std::nullopt;
  const auto midpoint = draw_midpoint(draw, b.format_);
  if (!midpoint) return std::nullopt;
  const double m = midpoint->value() * sign_of(draw);
  const double half = power(midpoint->exponent);
  b.begin();
  b.choose_group();
  for (std::size_t i = 0; i + 1 < b.elements_.size(); i += 2) {
    const double by = (2 * between(draw, 0, 40) + 1) * half;
    b.set(Role::x, b.elements_[i], m + by);
    b.set(Role::x, b.elements_[i + 1], m - by);
  }
  int side = 0;
  if (draw.below(4) == 0) {
    const float last = b.inputs_[Role::x][b.elements_.back()];
    side = draw.coin() ? 1 : -1;
    b.set(Role::x, b.elements_.back(), std::nextafter(last, static_cast<float>(side * infinity)));
  }
  return b.finish(Role::mean, static_cast<std::size_t>(b.group_), m, side);
}

// A variance a², a an odd integer with as many bits as fill one half of a midpoint.
std::optional<Trial> variance(Draw& draw) {
  Builder b(draw, Phase::forward_training);
  b.problem_.saved = true;
  b.problem_.running = false;
  b.problem_.convention.saved = SavedStatistic::variance;
  if (!b.choose_shape()) return std::nullopt;
  const int bits = precision_of(b.format_) + 1;
  const int least = static_cast<int>(std::ceil(std::sqrt(power(bits - 1))));
  const int most = static_cast<int>(std::floor(std::sqrt(power(bits) - 1)));
  const int odd = between(draw, least, most) | 1;
  if (odd > most) return std::nullopt;
  Deviation d;
  d.numerator = odd;
  d.a = odd * power(between(draw, -4, 1));
  b.begin();
  b.choose_group();
  (void)b.fill(d, b.centre(d));
  return b.finish(Role::stat, static_cast<std::size_t>(b.group_), d.a * d.a, 0);
}

// 1/D = s 2^e with an odd s > 1: of s² elements one is 2^j (less what eps adds outside the root), the others 0.
std::optional<Trial> reciprocal(Draw& draw) {
  Builder b(draw, Phase::forward_training);
  b.problem_.variant = Variant::rms_norm;
  b.problem_.saved = true;
  b.problem_.running = false;
  b.problem_.convention.saved = SavedStatistic::rstd;
  b.problem_.convention.eps = draw.coin() ? EpsPlacement::inside : EpsPlacement::outside;
  b.format_ = Format::float16;
  // Between subnormal values of float16, as no odd s is small and has all bits of a format.
  const int s = 2 * between(draw, 1, 4) + 1;
  constexpr int j = 25;
  const bool outside = b.problem_.convention.eps == EpsPlacement::outside;
  b.problem_.eps = outside ? power(between(draw, 2, 20)) : 0;
  b.problem_.shape = {1 + draw.below(3), 1, s * s, 1 + draw.below(2)};
  if (draw.coin()) b.problem_.shape = {1 + draw.below(2), s, s, 1};
  b.begin();
  b.choose_group();
  for (const std::size_t element : b.elements_) b.set(Role::x, element, 0);
  b.set(Role::x, b.elements_[draw.below(static_cast<std::uint32_t>(b.elements_.size()))],
        (power(j) - s * b.problem_.eps) * sign_of(draw));
  return b.finish(Role::stat, static_cast<std::size_t>(b.group_), s * power(-j), 0);
}

// new = old + take·(batch - old), with batch - old = odd half units / take.
std::optional<Trial> running_statistic(Draw& draw) {
  Builder b(draw, Phase::forward_training);
  b.problem_.running = true;
  if (b.row().running.empty()) b.problem_.variant = draw.coin() ? Variant::batch_norm : Variant::instance_norm;
  if (!b.choose_shape()) return std::nullopt;
  const int k = between(draw, 1, 8);
  double take = power(-k);
  switch (b.problem_.convention.momentum) {
    case MomentumForm::new_weight:
      b.problem_.momentum = take;
      break;
    case MomentumForm::old_weight:
      b.problem_.momentum = 1 - take;
      break;
    case MomentumForm::cumulative:
      b.problem_.step = 1 + draw.below(100);
      break;
    case MomentumForm::accumulated_weight:
      b.problem_.momentum = take;
      break;
  }
  const bool weighted = b.problem_.convention.momentum == MomentumForm::accumulated_weight;
  const double steps =
      b.problem_.convention.momentum == MomentumForm::cumulative ? static_cast<double>(b.problem_.step) : power(k);
  b.begin();
  b.choose_group();
  const std::size_t channel =
      static_cast<std::size_t>(dense_index(b.problem_.shape, b.row().running, b.groups().origin(b.group_)));
  if (weighted && draw.below(4) == 0) {
    const auto midpoint = draw_midpoint(draw, b.format_);
    if (!midpoint) return std::nullopt;
    const double m = midpoint->value();
    const auto rest = exact_difference(m, 1);
    if (!rest) return std::nullopt;
    b.set(Role::running_weight, 0, *rest * power(k));
    return b.finish(Role::running_weight, 0, m, 0);
  }
  const bool of_variance = draw.coin();
  const auto midpoint = draw_midpoint(draw, b.format_);
  if (!midpoint) return std::nullopt;
  const double half = power(midpoint->exponent);
  const double m = midpoint->value();
  double batch = 0;
  double old = 0;
  Deviation d;
  double c = 0;
  if (of_variance) {
    const int root = between(draw, 1, 60);
    d.numerator = root;
    d.a = root * power(midpoint->exponent / 2);
    batch = d.a * d.a;
    c = b.centre(d);
  } else {
    batch = weighted ? m - (2 * between(draw, 0, 100) + 1) * half
                     : m + (2 * between(draw, 0, 100) + 1) * half * (steps - 1) * sign_of(draw);
    c = batch;
    d.a = half * 2 * between(draw, 1, 9);
  }
  // m = old (1 - take) + take·batch, or take·old + batch.
  if (weighted) {
    const auto difference = exact_difference(m, batch);
    if (!difference) return std::nullopt;
    old = *difference * steps;
  } else if (steps == 1) {
    if (batch != m) return std::nullopt;
    old = 3;
  } else {
    const auto difference = exact_difference(m * steps, batch);
    if (!difference) return std::nullopt;
    old = *difference / (steps - 1);
    // Not all quotients are exact.
    if (!is_float(old) || old * (steps - 1) != *difference) return std::nullopt;
  }
  // instance_norm takes an average over the samples: all of them alike.
  for (std::int64_t q = 0; q < b.groups().count(); ++q) {
    if (static_cast<std::size_t>(dense_index(b.problem_.shape, b.row().running, b.groups().origin(q))) != channel)
      continue;
    b.group_ = q;
    b.elements_.clear();
    b.groups().for_each(q, [&](std::int64_t i, const Shape&) { b.elements_.push_back(static_cast<std::size_t>(i)); });
    (void)b.fill(d, c);
  }
  const Role role = of_variance ? Role::running_var : Role::running_mean;
  b.set(role, channel, old);
  return b.finish(role, channel, m, 0);
}

// dx of one of two elements that are alike but for opposite dy, the only ones of their group: Σg and Σ(g x^) are 0.
std::optional<Trial> input_gradient(Draw& draw, Phase phase) {
  Builder b(draw, phase);
  if (!b.choose_shape()) return std::nullopt;
  auto d = b.choose_deviation(false);
  if (!d) return std::nullopt;
  const bool training = is_training(phase);
  bool handed = !training;
  SavedUse use = SavedUse::recomputes;
  if (training && b.problem_.saved && draw.coin()) {
    handed = true;
    use = draw.coin() ? SavedUse::short_form : SavedUse::textbook;
  }
  if (b.problem_.from_output) handed = true;
  b.problem_.handed = Handed::nearest;
  if (handed && (training || b.problem_.given == Given::saved) && b.problem_.convention.saved == SavedStatistic::rstd) {
    d->divisor = 1;
    // 1/r > eps, and not at a kink.
    b.problem_.eps = power(-100);
  }
  b.begin();
  b.choose_group();
  const double c = b.centre(*d);
  std::vector<std::size_t> order;
  if (b.problem_.from_output) {
    for (std::size_t i = 0; i < b.elements_.size(); ++i) order.push_back(i);
  } else if (training) {
    order = b.fill(*d, c);
  } else {
    for (std::size_t i = 0; i < b.elements_.size(); ++i) order.push_back(i);
  }
  if (handed) b.set_given(*d, c);
  const auto midpoint = draw_midpoint(draw, b.format_);
  if (!midpoint) return std::nullopt;
  const double sign = sign_of(draw);
  // g = midpoint·D
  const int exponent = midpoint->exponent + d->exponent_of_d;
  double dy = d->divisor * midpoint->a;
  double weight = 1;
  if (b.problem_.gamma) {
    weight = midpoint->b;
    if (b.problem_.convention.gamma == GammaOffset::plain) {
      const int part = between(draw, -20, 20);
      weight *= power(part) * sign_of(draw);
      dy *= power(exponent - part);
    } else {
      dy *= power(exponent);
    }
  } else {
    dy *= midpoint->b * power(exponent);
  }
  dy *= sign;
  for (const std::size_t element : b.elements_) b.set(Role::dy, element, 0);
  const std::size_t first = order[0];
  b.set(Role::dy, b.elements_[first], dy);
  if (b.problem_.gamma) b.set_weight(b.channels_[first], weight);
  if (training) {
    if (order.size() < 4) return std::nullopt;
    const std::size_t second = order[1];
    if (b.problem_.from_output) {
      // The same y, beta and gamma.
      const double y = between(draw, -50, 50);
      b.set(Role::y, b.elements_[first], y);
      b.set(Role::y, b.elements_[second], y);
      if (b.problem_.beta) b.set(Role::beta, b.channels_[first], 2);
      if (b.problem_.beta) b.set(Role::beta, b.channels_[second], 2);
    }
    b.set(Role::dy, b.elements_[second], -dy);
    if (b.problem_.gamma) b.set_weight(b.channels_[second], weight);
  }
  return b.finish(Role::dx, b.elements_[first], dy * weight / d->divisor * power(-d->exponent_of_d), 0, use);
}
std::optional<Trial> input_gradient_of_training(Draw& draw) { return input_gradient(draw, Phase::backward_training); }
std::optional<Trial> input_gradient_of_inference(Draw& draw) { return input_gradient(draw, Phase::backward_inference); }

// dgamma of a channel with one group: D's odd part times one dy large and one small, or what is added to.
std::optional<Trial> gamma_gradient(Draw& draw) {
  Builder b(draw, Phase::backward_training);
  b.problem_.gamma = true;
  b.problem_.saved = b.problem_.from_output = false;
  b.problem_.handed = Handed::nearest;
  if (!b.choose_shape()) return std::nullopt;
  if (b.problem_.variant == Variant::layer_norm || b.problem_.variant == Variant::rms_norm) {
    b.problem_.shape[0] = b.problem_.shape[3] = 1;
  } else if (b.problem_.variant != Variant::batch_norm) {
    b.problem_.shape[0] = 1;
  }
  const bool tiny = draw.below(4) == 0;
  const auto d = b.choose_deviation(tiny);
  if (!d || group_size(b.problem_) < 2) return std::nullopt;
  b.begin();
  b.choose_group();
  const auto order = b.fill(*d, b.centre(*d));
  const std::size_t first = order[0];
  const std::size_t channel = b.channels_[first];
  for (std::size_t i = 0; i < b.elements_.size(); ++i)
    if (b.channels_[i] == channel) b.set(Role::dy, b.elements_[i], 0);
  const auto midpoint = draw_midpoint(draw, b.format_);
  if (!midpoint) return std::nullopt;
  const double m = midpoint->value() * sign_of(draw);
  double product = 0;  // of dy x^ at `first`, whose x^ is numerator/divisor
  if (b.problem_.convention.gradients == Gradients::accumulate) {
    const double t = (2 * between(draw, 0, 500) + 1) * power(midpoint->exponent + between(draw, 0, 8)) * sign_of(draw);
    product = t * d->numerator;
    b.set(Role::dy, b.elements_[first], t * d->divisor);
    const auto old = exact_difference(m, product);
    if (!old) return std::nullopt;
    b.set(Role::dgamma, channel, *old);
  } else {
    // The numerator is to divide both, as x^ of either element is numerator/divisor.
    if (d->numerator != 1 && std::frexp(d->numerator, std::array<int, 1>{}.data()) != 0.5) return std::nullopt;
    const double half = power(midpoint->exponent) * (m < 0 ? -1 : 1);
    product = m;
    std::size_t second = order.size();
    for (std::size_t i = 1; i < order.size(); ++i)
      if (b.channels_[order[i]] == channel) second = i;
    if (second == order.size()) return std::nullopt;
    const double sign = second < order.size() / 2 ? 1 : -1;
    b.set(Role::dy, b.elements_[first], (m - half) * d->divisor / d->numerator);
    b.set(Role::dy, b.elements_[order[second]], sign * half * d->divisor / d->numerator);
  }
  return b.finish(Role::dgamma, channel, m, product > 0 ? d->side : -d->side);
}

// Two rows of deviations a1, a2 with a1² + eps = w p² and a2² + eps = w q²: dgamma is a multiple of 1/sqrt(w) that is 0
// for dy in the ratio p a2 : -q a1. What is added to stands on a boundary, or a third row is beside it.
std::optional<Trial> cancelled_roots(Draw& draw) {
  Builder b(draw, Phase::backward_training);
  b.problem_.variant = draw.coin() ? Variant::layer_norm : Variant::rms_norm;
  b.problem_.gamma = true;
  b.problem_.saved = b.problem_.from_output = false;
  b.problem_.handed = Handed::nearest;
  b.problem_.convention.eps = EpsPlacement::inside;
  const int n = 2 * between(draw, 1, 6) + (b.row().centred && draw.coin() ? 1 : 0);
  b.problem_.convention.normalizing = n % 2 == 0 ? NormalizingDivisor::n : NormalizingDivisor::n_minus_1;
  const bool third = draw.below(3) == 0;
  b.problem_.shape = {third ? 3 : 2, 1, n, 1};
  if (draw.coin()) std::swap(b.problem_.shape[0], b.problem_.shape[3]);
  const int w = between(draw, 2, 40);
  const int q = between(draw, 1, 9);
  const int p = q + between(draw, 1, 9);
  // a1 - a2 = p + q, a1 + a2 = w (p - q), times 2 so that both are integers.
  const int a1 = w * (p - q) + p + q;
  const int a2 = w * (p - q) - p - q;
  const double eps = 4.0 * w * p * p - static_cast<double>(a1) * a1;
  if (a2 <= 0 || eps <= 0) return std::nullopt;
  const int j = between(draw, -6, 6);
  b.problem_.eps = eps * power(2 * j);
  b.begin();
  std::array<double, 2> x_hat_signs{};
  const std::int64_t channel = draw.below(static_cast<std::uint32_t>(n));
  const double k = power(between(draw, -20, 20)) * sign_of(draw);
  double last = 0;  // x of the third row at the channel, less its mean
  for (std::int64_t row = 0; row < (third ? 3 : 2); ++row) {
    b.group_ = row;
    b.elements_.clear();
    b.groups().for_each(row, [&](std::int64_t i, const Shape&) { b.elements_.push_back(static_cast<std::size_t>(i)); });
    Deviation d;
    d.numerator = 1;
    d.a = (row == 0 ? a1 : row == 1 ? a2 : 5) * power(j);
    const double c = b.row().centred ? between(draw, -99, 99) * power(j) : 0;
    (void)b.fill(d, c);
    const double side = static_cast<double>(b.inputs_[Role::x][b.elements_[static_cast<std::size_t>(channel)]]) - c;
    if (side == 0) return std::nullopt;
    if (row < 2) x_hat_signs[static_cast<std::size_t>(row)] = side > 0 ? 1 : -1;
    last = side;
  }
  const auto dy_at = [&](std::int64_t row) {
    std::size_t result = 0;
    std::int64_t i = 0;
    b.groups().for_each(row, [&](std::int64_t at, const Shape&) {
      if (i++ == channel) result = static_cast<std::size_t>(at);
    });
    return result;
  };
  b.set(Role::dy, dy_at(0), x_hat_signs[0] * p * a2 * k);
  b.set(Role::dy, dy_at(1), -x_hat_signs[1] * q * a1 * k);
  int side = 0;
  if (third) {
    // |x^| < 1: less than a quarter of the smallest subnormal of float16 and bfloat16, and than half a unit of others.
    const double dy = power(-149) * sign_of(draw);
    b.set(Role::dy, dy_at(2), dy);
    side = (dy > 0) == (last > 0) ? 1 : -1;
  }
  double boundary = 0;
  if (b.problem_.convention.gradients == Gradients::accumulate) {
    if (b.format_ == Format::float32) b.format_ = draw.coin() ? Format::bfloat16 : Format::float16;
    const auto midpoint = draw_midpoint(draw, b.format_);
    if (!midpoint) return std::nullopt;
    boundary = midpoint->value() * sign_of(draw);
    b.set(Role::dgamma, static_cast<std::size_t>(channel), boundary);
  } else if (third && b.format_ == Format::float32) {
    return std::nullopt;  // x^ > 1/2 rounds to a subnormal number
  }
  return b.finish(Role::dgamma, static_cast<std::size_t>(channel), boundary, side);
}

// Σdy: a float, half a unit and pairs that cancel; one in four a subnormal number beside it.
std::optional<Trial> beta_gradient(Draw& draw) {
  Builder b(draw, draw.coin() ? Phase::backward_training : Phase::backward_inference);
  b.problem_.beta = true;
  b.problem_.from_output = false;
  b.problem_.convention.gradients = draw.coin() ? Gradients::accumulate : Gradients::overwrite;
  b.problem_.shape = draw_shape(draw, b.problem_.variant);
  b.begin();
  const Shape channels = restricted(b.problem_.shape, b.row().affine);
  const auto channel = static_cast<std::size_t>(draw.below(static_cast<std::uint32_t>(element_count(channels))));
  std::vector<std::size_t> elements;
  for (std::int64_t q = 0; q < b.groups().count(); ++q)
    b.groups().for_each(q, [&](std::int64_t i, const Shape& at) {
      if (static_cast<std::size_t>(dense_index(b.problem_.shape, b.row().affine, at)) == channel)
        elements.push_back(static_cast<std::size_t>(i));
    });
  for (std::size_t i = elements.size(); i-- > 1;)
    std::swap(elements[i], elements[draw.below(static_cast<std::uint32_t>(i + 1))]);
  const auto midpoint = draw_midpoint(draw, b.format_);
  if (!midpoint) return std::nullopt;
  const double sign = sign_of(draw);
  const double half = power(midpoint->exponent) * sign;
  const double m = midpoint->value() * sign;
  std::vector<double> terms{m - half, half};
  int side = 0;
  if (draw.below(4) == 0 && midpoint->exponent > -149) {
    side = draw.coin() ? 1 : -1;
    terms.push_back(side * power(-149));
  }
  if (b.problem_.convention.gradients == Gradients::accumulate) {
    const std::size_t which = draw.below(static_cast<std::uint32_t>(terms.size()));
    b.set(Role::dbeta, channel, terms[which]);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(which));
  }
  if (elements.size() < terms.size()) return std::nullopt;
  while (terms.size() < elements.size()) {
    if (terms.size() + 1 == elements.size()) {
      terms.push_back(0);
      break;
    }
    const auto value = static_cast<double>(draw.any_float());
    terms.push_back(value);
    terms.push_back(-value);
  }
  for (std::size_t i = 0; i < elements.size(); ++i) b.set(Role::dy, elements[i], terms[i]);
  return b.finish(Role::dbeta, channel, m, side);
}

constexpr std::array<Family, 11> all_families{{{"y of training", output_of_training},
                                               {"y of inference", output_of_inference},
                                               {"mean", mean},
                                               {"variance", variance},
                                               {"reciprocal", reciprocal},
                                               {"running statistic", running_statistic},
                                               {"dx of training", input_gradient_of_training},
                                               {"dx of inference", input_gradient_of_inference},
                                               {"dgamma", gamma_gradient},
                                               {"dgamma of roots that cancel", cancelled_roots},
                                               {"dbeta", beta_gradient}}};

}  // namespace

std::span<const Family> families() { return all_families; }

Trial draw_boundary(Draw& draw) {
  for (;;) {
    const std::uint32_t which = draw.below(static_cast<std::uint32_t>(2 * all_families.size()) + 1);
    if (which == 2 * all_families.size()) return one_of(draw, known_cases());
    for (int attempt = 0; attempt < 16; ++attempt)
      if (auto trial = all_families[which / 2].draw(draw)) return *std::move(trial);
  }
}

}  // namespace normgate::proof
