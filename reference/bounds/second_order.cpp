// Running error bounds of the form that normgate.h states. Every quantity is carried as (M, E, R): M bounds the sum of
// the moduli of the terms that it is a sum of once brackets are multiplied out, E bounds |computed - true|, R bounds
// all partial products of its factors, in whatever order, and is at least 1. With u the larger unit roundoff of the two
// types and η the larger underflow:
//
//   product  M = M_a M_b,  E = M_a E_b + M_b E_a + E_a E_b + u (M_a + E_a)(M_b + E_b) + η R_a R_b,  R = R_a R_b
//   sum      of m terms in any order: M = Σ M, E = Σ E + γ_{m-1} Σ (M + E) (+ η R, flushed),  R = Σ R
//
// E is in terms of M, not of |value|, so that a value made of cancelling terms has the bound of these terms; a kernel
// that multiplies out has no other factors and no more roundings on the way of a term than are counted for the sum of
// all of them, which here is taken flat: ddy of four terms, dx of six, an addend of dgamma of two. Contraction leaves
// roundings out.
//
//   x^     |x^^ - x^| <= |d| |r^-r| + shift + γ_k a + underflow, a >= |x^^| before its own roundings
//   (gradient_group.hpp;
//          folded: of |x| + |mean|), k of the difference and the product
//   s      inside and above a floor r; else as respond() derives it. 2 + s D: relative errors of s and 1/r^, four
//          roundings more (1/D, D's own sum, product, sum) outside, 3 elsewhere
//   sums   with x^: what r^ and the mean's error do to all terms is common to them: |Σ v x^| |r^-r|/r + shift |Σ v|;
//          the terms' own roundings (x^'s, the product, on the way into a narrower accumulator) grow by 1 + G and the
//          sum adds G Σ M, G = sum_factor; a narrower statistics type rounds the sum once more. q: the larger of both
//          forms
//   means  E = (Σ E (1+G) + G Σ (M+E)) (1+t)/n + t M, t of a division; differences from them are sums of two
//   a … q  s times a sum, then a division by N_v, whether it is one or a product with 1/N_v
//   dgamma Σ over the channel: as a sum of all its terms, deep as in parameter_gradients.cpp
//   result one more rounding into float32 where a type is wider
//
// Nothing is judged where a product may overflow (R), s is undecided (a floor at eps) or an input is not finite.
#include "reference/bounds/second_order.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "reference/bounds/gradient_group.hpp"
#include "reference/bounds/judged.hpp"

namespace normgate {
namespace {

using namespace bounds;

struct Bounded {
  double modulus = 0;  // M
  double error = 0;    // E
  double reach = 1;    // R
  [[nodiscard]] double most() const { return modulus + error; }
};

// The gradient that it is the gradient of: statistics from x, nothing handed.
Problem first_order_of(const Problem& problem) {
  Problem first = problem;
  first.phase = Phase::backward_training;
  return first;
}

class SecondOrderBounds {
 public:
  SecondOrderBounds(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim)
      : first_(first_order_of(problem)),
        inputs_(inputs),
        truth_(truth),
        claim_(claim),
        model_(first_, inputs, truth, SavedUse::recomputes, claim),
        n_(model_.groups.size()),
        sum_factor_(sum_factor(claim.group_sum, n_, claim.accumulator)),
        wider_(claim.accumulator == ScalarType::float64 || claim.statistics == ScalarType::float64) {}

  Bounds run() {
    for (const Role role : {Role::ddy, Role::dx, Role::dgamma}) {
      bounds_.tolerance[role].assign(truth_.out[role].size(), infinity);
      bounds_.scale[role].assign(truth_.out[role].size(), 0x1p-126);
    }
    channels_.resize(truth_.out[Role::dgamma].size());
    const auto count = static_cast<std::size_t>(model_.groups.count());
    bounds_.levels.assign(count, {infinity, infinity});
    bounds_.in_range.assign(count, true);
    if (n_ > 0)
      for (std::int64_t q = 0; q < model_.groups.count(); ++q) judge(q);
    judge_channels();
    return std::move(bounds_);
  }

 private:
  using List = std::vector<Bounded>;

  // ---- arithmetic
  [[nodiscard]] Bounded leaf(double value) const {
    return {std::fabs(value), model_.zeta, 1 + std::fabs(value) + model_.zeta};
  }
  [[nodiscard]] Bounded product(const Bounded& a, const Bounded& b) const {
    Bounded result;
    result.modulus = a.modulus * b.modulus;
    result.error = a.modulus * b.error + b.modulus * a.error + a.error * b.error + model_.u * a.most() * b.most() +
                   model_.eta * a.reach * b.reach;
    result.reach = a.reach * b.reach;
    return result;
  }
  [[nodiscard]] Bounded product(std::initializer_list<Bounded> factors) const {
    const Bounded* next = factors.begin();
    Bounded result = *next;
    while (++next != factors.end()) result = product(result, *next);
    return result;
  }
  [[nodiscard]] Bounded sum(std::initializer_list<Bounded> terms) const {
    Bounded result{0, 0, 0};
    for (const Bounded& term : terms) {
      result.modulus += term.modulus;
      result.error += term.error;
      result.reach += term.reach;
    }
    result.error += gamma_factor(static_cast<double>(terms.size() - 1), model_.u) * result.most() +
                    (model_.flushed ? model_.eta * result.reach * static_cast<double>(terms.size()) : 0);
    return result;
  }

  // ---- sums over the group
  // What a sum makes of the errors and the moduli of its terms.
  [[nodiscard]] Bounded summed(double modulus, double error, double reach) const {
    const double into_accumulator = gamma_factor(2 * model_.narrow, model_.u) * (modulus + error);
    const double n = static_cast<double>(n_);
    double total =
        (error + into_accumulator) * (1 + sum_factor_) + sum_factor_ * modulus + (model_.flushed ? n * model_.eta : 0);
    total += model_.narrowing * (modulus + total) + (model_.narrowing > 0 ? model_.eta : 0);
    return {modulus, total, reach};
  }
  [[nodiscard]] Bounded sum_of_products(const List& a, const List& b) const {
    double modulus = 0, error = 0, reach = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Bounded term = product(a[i], b[i]);
      modulus += term.modulus;
      error += term.error;
      reach += term.reach;
    }
    return summed(modulus, error, reach);
  }
  // Σ v x^; `signed_of(i)` is v_i.
  [[nodiscard]] Bounded sum_with_normalized(const List& v, const std::function<double(std::size_t)>& signed_of,
                                            const std::vector<Element>& elements, const Frame& frame) const {
    const double relative = frame.r > 0 ? frame.r_error / frame.r : 0;
    const double k = model_.hat_roundings(false) + 1;
    double modulus = 0, own = 0, reach = 0, products = 0, values = 0, doubt = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const Element& e = elements[i];
      const double most = model_.folded ? e.wide : e.reach;
      const double value = signed_of(i);
      modulus += v[i].modulus * most;
      own += (v[i].error + v[i].most() * gamma_factor(k, model_.u)) * most + v[i].most() * e.hat_absolute +
             model_.eta * v[i].reach * (1 + most);
      reach += v[i].reach * (1 + most);
      products += value * e.hat;
      values += value;
      doubt += v[i].modulus * (std::fabs(e.hat) * relative + frame.shift);
    }
    const double common =
        std::fabs(products) * relative + frame.shift * std::fabs(values) + (frame.n + 8) * 0x1p-52 * doubt;
    Bounded result = summed(modulus, own, reach);
    result.error += common * (1 + model_.narrowing);
    return result;
  }
  [[nodiscard]] Bounded mean_of(const List& v) const {
    double modulus = 0, error = 0, reach = 0;
    for (const Bounded& term : v) {
      modulus += term.modulus;
      error += term.error;
      reach += term.reach;
    }
    const Bounded total = summed(modulus, error, reach);
    const double n = static_cast<double>(n_);
    const double t = model_.any_division();
    return {modulus / n, total.error / n * (1 + t) + t * modulus / n + model_.eta_a + model_.eta_s, 1 + reach};
  }
  // v less its mean where rows are centred.
  [[nodiscard]] List centred(const List& v) const {
    if (!model_.row.centred) return v;
    const Bounded mean = mean_of(v);
    List result;
    for (const Bounded& value : v) result.push_back(sum({value, mean}));
    return result;
  }
  // s times a sum, over N_v.
  [[nodiscard]] Bounded pull(const Bounded& s, const Bounded& total, double divisor) const {
    if (divisor == 0) return {};  // a single value: its variance is stated, and nothing moves it
    Bounded result = product(s, total);
    const double t = model_.any_division_by_divisor();
    result.error = (result.error + t * result.most()) / divisor + 2 * model_.eta * result.reach;
    result.modulus /= divisor;
    return result;
  }

  // ---- judging
  void judge(std::int64_t q) {
    const Frame frame = model_.frame_of(q);
    const std::vector<Element> elements = model_.elements_of(q, frame);
    bounds_.in_range[static_cast<std::size_t>(q)] = frame.squares_fit;
    bool finite = frame.mean_finite;
    for (const Element& e : elements) {
      finite = finite && e.finite && std::isfinite(e.dy) && std::isfinite(e.gamma) &&
               std::isfinite(inputs_[Role::ddx][e.index]) &&
               (!first_.gamma || std::isfinite(inputs_[Role::ddgamma][e.channel])) &&
               (!first_.beta || std::isfinite(inputs_[Role::ddbeta][e.channel]));
    }
    const bool known = finite && frame.squares_fit && frame.r_known && frame.judged && !frame.nan;
    if (!known) {
      // What is NaN by definition is to be NaN; nothing else is known.
      const bool nan = finite && frame.nan;
      for (const Element& e : elements) {
        enter(bounds_, truth_, Role::ddy, e.index, infinity, 0, nan);
        enter(bounds_, truth_, Role::dx, e.index, infinity, 0, nan);
        if (!channels_.empty()) (nan ? channels_[e.channel].nan : channels_[e.channel].unknown) = true;
      }
      return;
    }
    derive(frame, elements);
  }

  void derive(const Frame& frame, const std::vector<Element>& elements) {
    const auto upstream = [&](Role role, std::size_t at) {
      return inputs_[role].empty() ? 0.0 : static_cast<double>(inputs_[role][at]);
    };
    List u, g, h, normalized, gamma, dy;
    for (const Element& e : elements) {
      u.push_back(leaf(upstream(Role::ddx, e.index)));
      dy.push_back(leaf(e.dy));
      gamma.push_back(leaf(e.gamma));
      if (model_.plus_one) gamma.back().error += model_.u * std::fabs(e.gamma);
      const double size = std::fabs(e.g);
      g.push_back({size, gamma_factor(model_.gamma_roundings(), model_.u) * size + e.g_absolute,
                   dy.back().reach * gamma.back().reach});
      h.push_back(first_.gamma ? product(leaf(upstream(Role::ddgamma, e.channel)), dy.back()) : Bounded{});
      const double most = model_.folded ? e.wide : e.reach;
      normalized.push_back({most,
                            std::fabs(e.d) * frame.r_error + frame.shift +
                                gamma_factor(model_.hat_roundings(false), model_.u) * most + e.hat_absolute,
                            (1 + e.raw) * (1 + frame.reciprocal.high)});
    }
    const bool outside = first_.convention.eps == EpsPlacement::outside;
    const double relative = frame.r > 0 ? frame.r_error / frame.r : 0;
    const Bounded r{frame.reciprocal.high, frame.r_error, 1 + frame.reciprocal.high};
    const Bounded s{frame.s_high, (outside ? frame.e : relative) * frame.s_high, 1 + frame.s_high};
    Bounded curvature{3, 0, 4};
    if (outside) {
      const double low = frame.reciprocal.low;
      const double inverse = low > 0 ? std::max(frame.r / low - 1, 1 - frame.r / frame.reciprocal.high) : infinity;
      const double ratio = low > 0 ? frame.s_high / low : infinity;
      curvature = {2 + ratio, ratio * compound({frame.e, inverse, gamma_factor(4, model_.u)}) + model_.u * (2 + ratio),
                   (2 + ratio) * s.reach * r.reach};
    }
    const auto hat_sum = [&](const List& v, const std::function<double(std::size_t)>& signed_of) {
      return pull(s, sum_with_normalized(v, signed_of, elements, frame), frame.divisor);
    };
    const Bounded a = hat_sum(u, [&](std::size_t i) { return upstream(Role::ddx, elements[i].index); });
    const Bounded b = hat_sum(g, [&](std::size_t i) { return elements[i].g; });
    const Bounded c =
        hat_sum(h, [&](std::size_t i) { return upstream(Role::ddgamma, elements[i].channel) * elements[i].dy; });
    const List centred_u = centred(u), centred_g = centred(g), centred_h = centred(h);
    const Bounded one_way = sum_of_products(centred_u, g), other_way = sum_of_products(u, centred_g);
    const Bounded q = pull(s,
                           {std::max(one_way.modulus, other_way.modulus), std::max(one_way.error, other_way.error),
                            std::max(one_way.reach, other_way.reach)},
                           frame.divisor);

    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Element& e = elements[i];
      const Bounded& hat = normalized[i];
      Bounded ddy;
      if (first_.gamma) {
        const Bounded along = product(leaf(upstream(Role::ddgamma, e.channel)), hat);
        ddy = sum({product({gamma[i], r, centred_u[i]}), product({gamma[i], a, hat}), along,
                   leaf(upstream(Role::ddbeta, e.channel))});
      } else {
        ddy = sum({product(r, centred_u[i]), product(a, hat), leaf(upstream(Role::ddbeta, e.channel))});
      }
      const Bounded dx = sum({product(r, centred_h[i]), product({r, b, centred_u[i]}), product({r, a, centred_g[i]}),
                              product({curvature, a, b, hat}), product({q, r, hat}), product(c, hat)});
      judge_one(Role::ddy, e.index, ddy);
      judge_one(Role::dx, e.index, dx);
      if (channels_.empty()) continue;
      const Bounded addend = sum({product({dy[i], r, centred_u[i]}), product({dy[i], a, hat})});
      Channel& channel = channels_[e.channel];
      channel.modulus += addend.modulus;
      channel.error += addend.error;
      channel.reach += addend.reach;
    }
  }

  [[nodiscard]] double into_float32(const Exact& exact, double error) const {
    return error + (wider_ ? unit_float32 * (std::fabs(exact.hi) + error) : 0) + 3 * model_.eta_out;
  }

  void judge_one(Role role, std::size_t at, const Bounded& bounded) {
    // Four sums are inside each other: of the statistics, means, pulls and the result.
    const double slack = std::pow(GradientModel::slack(n_), 4);
    enter(bounds_, truth_, role, at, into_float32(truth_.out[role][at], bounded.error) * slack, bounded.modulus,
          bounded.reach < model_.top);
  }

  void judge_channels() {
    double terms = 1, parts = 1;
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (model_.row.affine.has(a)) continue;
      terms *= static_cast<double>(first_.shape[a]);
      if (!model_.row.reduced.has(a)) parts *= static_cast<double>(first_.shape[a]);
    }
    const auto share = static_cast<std::int64_t>(parts > 0 ? terms / parts : 0);
    const auto within = static_cast<double>(depth(claim_.group_sum, share));
    const auto all_parts = static_cast<std::int64_t>(parts);
    double path = within + static_cast<double>(depth(claim_.across_groups, all_parts));
    if (claim_.across_groups.order == SumOrder::sequential && all_parts > 1)
      path = std::min(terms - 1, parts * (1 + within));
    const double factor = terms <= 1 ? 0 : std::min((terms - 1) * model_.u_a, gamma_factor(path, model_.u_a));
    const double slack = std::pow(GradientModel::slack(n_), 4) * GradientModel::slack(static_cast<std::int64_t>(terms));
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      const Channel& channel = channels_[c];
      const double narrowed = gamma_factor(2 * model_.narrow, model_.u) * (channel.modulus + channel.error);
      double total = (channel.error + narrowed) * (1 + factor) + channel.modulus * factor +
                     (model_.flushed ? terms * model_.eta : 0);
      total += model_.narrowing * (channel.modulus + total) + model_.eta_a + model_.eta_s;
      const double tolerance = channel.nan ? infinity : into_float32(truth_.out[Role::dgamma][c], total) * slack;
      enter(bounds_, truth_, Role::dgamma, c, tolerance, channel.modulus,
            !channel.unknown && channel.reach < model_.top);
    }
  }

  struct Channel {
    double modulus = 0;
    double error = 0;
    double reach = 0;
    bool unknown = false;  // a group of it is
    bool nan = false;      // a group of it is NaN by definition
  };

  const Problem first_;
  const Inputs& inputs_;
  const Truth& truth_;
  const Claim& claim_;
  GradientModel model_;
  std::int64_t n_;
  double sum_factor_;
  bool wider_;
  std::vector<Channel> channels_;
  Bounds bounds_;
};

}  // namespace

Bounds double_backward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim) {
  return SecondOrderBounds(problem, inputs, truth, claim).run();
}

}  // namespace normgate
