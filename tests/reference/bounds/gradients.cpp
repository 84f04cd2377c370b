// See gradients.hpp.
#include "tests/reference/bounds/gradients.hpp"

#include <fmt/format.h>

#include "tests/reference/bounds/arithmetic.hpp"

namespace normgate::emulated {
namespace {

template <typename A, typename S>
class Backward : Arithmetic<A, S> {
 public:
  using Base = Arithmetic<A, S>;
  Backward(const Problem& problem, const Inputs& inputs, SavedUse use, const Claim& claim, const GradientStyle& style)
      : Base(problem, inputs, claim, style.arithmetic), how_(style), use_(use) {}

  Inputs run() {
    const auto channels = static_cast<std::size_t>(element_count(restricted(problem_.shape, row_.affine)));
    out_[Role::dx].resize(inputs_[Role::dy].size());
    dgamma_.resize(channels);
    dbeta_.resize(channels);
    for (std::int64_t q = 0; q < groups_.count(); ++q) group(q);
    for (std::size_t c = 0; c < channels; ++c) {
      if (problem_.gamma) out_[Role::dgamma].push_back(across(dgamma_[c], Role::dgamma, c));
      if (problem_.beta) out_[Role::dbeta].push_back(across(dbeta_[c], Role::dbeta, c));
    }
    return std::move(out_);
  }

 private:
  using Base::claim_;
  using Base::divided;
  using Base::gamma;
  using Base::given;
  using Base::groups_;
  using Base::inputs_;
  using Base::over;
  using Base::own;
  using Base::plus_eps;
  using Base::problem_;
  using Base::reciprocal;
  using Base::row_;
  using Base::style_;
  using Base::sum;

  // The terms of a channel, group by group, and what each group adds up to.
  struct Parts {
    std::vector<A> terms;
    std::vector<A> sums;
  };

  float across(const Parts& parts, Role role, std::size_t c) const {
    const bool accumulates = problem_.convention.gradients == Gradients::accumulate;
    const float old = accumulates ? inputs_[role][c] : 0.0F;
    // Sequential over groups: the terms of one group after the other may go into the running totals of its sum.
    const SumOrder within = claim_.group_sum.order;
    const bool running = how_.running_total && claim_.across_groups.order == SumOrder::sequential &&
                         (within == SumOrder::sequential || within == SumOrder::interleaved);
    std::vector<A> values = running ? parts.terms : parts.sums;
    if (accumulates && how_.old_first) values.insert(values.begin(), static_cast<A>(old));
    const Sum order = running ? claim_.group_sum : claim_.across_groups;
    const A total = reduce<A>(
        static_cast<std::int64_t>(values.size()), order,
        [&](A& t, std::int64_t i) { t += values[static_cast<std::size_t>(i)]; }, [](A a, A b) { return a + b; });
    const float result = static_cast<float>(total);
    return accumulates && !how_.old_first ? old + result : result;
  }

  struct Item {
    std::size_t index = 0;
    std::size_t c = 0;
    S x = 0, dy = 0, w = 1, y = 0, beta = 0;
  };

  A term(S a, S b) const {
    if (how_.arithmetic.narrow_squares) return static_cast<A>(a * b);
    return static_cast<A>(a) * static_cast<A>(b);
  }

  // Σ over some items of a product.
  template <typename Product>
  A sum_of(const std::vector<Item>& items, Product product) const {
    return sum(static_cast<std::int64_t>(items.size()),
               [&](A t, std::int64_t i) { return t + product(items[static_cast<std::size_t>(i)]); });
  }

  A g_of(const Item& item) const {
    if (!problem_.gamma || how_.bug == Bug::gamma_ignored) return static_cast<A>(item.dy);
    return how_.gamma_narrow ? static_cast<A>(item.dy * item.w) : static_cast<A>(item.dy) * static_cast<A>(item.w);
  }
  S s_of(const Item& item) const {
    return problem_.gamma && how_.bug != Bug::gamma_ignored ? item.dy * item.w : item.dy;
  }

  void group(std::int64_t q) {
    std::vector<Item> items;
    std::vector<float> x;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      Item item;
      item.index = static_cast<std::size_t>(i);
      item.c = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
      item.dy = static_cast<S>(inputs_[Role::dy][item.index]);
      item.w = gamma(item.c);
      if (problem_.from_output) {
        item.y = static_cast<S>(inputs_[Role::y][item.index]);
        item.beta = problem_.beta ? static_cast<S>(inputs_[Role::beta][item.c]) : S(0);
      } else {
        item.x = static_cast<S>(inputs_[Role::x][item.index]);
        x.push_back(inputs_[Role::x][item.index]);
      }
      items.push_back(item);
    });
    if (items.empty()) return;
    const bool training = problem_.phase == Phase::backward_training;
    if (training && use_ == SavedUse::recomputes) {
      const auto m = own(x);
      mean_ = m.mean;
      variance_ = m.variance;
      r_ = reciprocal(m.variance);
    } else {
      const auto g = given(q);
      mean_ = g.mean;
      variance_ = g.variance;
      r_ = g.rstd;
    }
    constant_ = true;
    for (const Item& item : items) constant_ = constant_ && item.c == items[0].c;
    one_channel_ = constant_;
    if (!problem_.gamma) constant_ = true;
    parameters(items);
    if (training && how_.bug != Bug::inference)
      train(items);
    else
      for (const Item& item : items) out_[Role::dx][item.index] = static_cast<float>(infer(item));
  }

  S infer(const Item& item) const {
    switch (how_.arithmetic.product) {
      case 0:
        return s_of(item) * r_;
      case 1:
        return item.dy * (item.w * r_);
      default:
        return (item.dy * r_) * item.w;
    }
  }

  S difference(const Item& item) const { return row_.centred ? item.x - mean_ : item.x; }
  S hat(const Item& item) const {
    if (!problem_.from_output) return difference(item) * r_;
    const S d = problem_.beta ? item.y - item.beta : item.y;
    if (!problem_.gamma) return d;
    return how_.reciprocal_gamma ? d * (S(1) / item.w) : d / item.w;
  }

  // What of a group belongs to each channel: (Σ dy x̂, Σ dy).
  void parameters(const std::vector<Item>& items) {
    std::vector<std::vector<Item>> by_channel;
    std::vector<std::size_t> place(dgamma_.size(), SIZE_MAX);
    for (const Item& item : items) {
      if (place[item.c] == SIZE_MAX) {
        place[item.c] = by_channel.size();
        by_channel.emplace_back();
      }
      by_channel[place[item.c]].push_back(item);
    }
    for (const auto& list : by_channel) {
      const std::size_t c = list[0].c;
      const A up = sum_of(list, [&](const Item& i) { return static_cast<A>(i.dy); });
      A gradient = 0;
      const bool folded = claim_.form == AffineForm::folded;
      if (problem_.from_output) {
        if (folded && how_.multiply_later) {
          const A products = sum_of(list, [&](const Item& i) { return term(i.dy, i.y); });
          gradient = multiply_add(static_cast<A>(-list[0].beta), up, products, style_.contract);
          if (problem_.gamma) gradient = gradient / static_cast<A>(list[0].w);
        } else {
          gradient = sum_of(list, [&](const Item& i) { return term(i.dy, hat(i)); });
        }
      } else if (folded && how_.association != Association::brackets) {
        const A products = sum_of(list, [&](const Item& i) { return term(i.dy, i.x); });
        gradient = multiply_add(static_cast<A>(-mean_), up, products, style_.contract) * static_cast<A>(r_);
      } else if (how_.multiply_later) {
        gradient =
            static_cast<A>(static_cast<S>(sum_of(list, [&](const Item& i) { return term(i.dy, difference(i)); })) * r_);
      } else {
        gradient = sum_of(list, [&](const Item& i) { return term(i.dy, hat(i)); });
      }
      if (how_.bug == Bug::dgamma_from_x) gradient = sum_of(list, [&](const Item& i) { return term(i.dy, i.x * r_); });
      if (how_.bug == Bug::dgamma_with_gamma) gradient *= static_cast<A>(list[0].w);
      for (const Item& i : list) {
        dgamma_[c].terms.push_back(term(i.dy, hat(i)));
        dbeta_[c].terms.push_back(static_cast<A>(i.dy));
      }
      dgamma_[c].sums.push_back(gradient);
      dbeta_[c].sums.push_back(up);
      own_dgamma_ = gradient;
      own_dbeta_ = up;
    }
  }

  // s = r, 1/√v or 0 over r: what the x̂ term has besides r.
  S ratio() const {
    const auto eps = problem_.convention.scalars == Scalars::float64 ? static_cast<S>(problem_.eps)
                                                                     : static_cast<S>(static_cast<float>(problem_.eps));
    switch (problem_.convention.eps) {
      case EpsPlacement::inside:
        break;
      case EpsPlacement::outside: {
        if (variance_ == 0) return S(0);
        const bool known = !std::isnan(variance_);
        const S root = known && !how_.root_from_reciprocal
                           ? (claim_.rsqrt_ulp == 0 ? std::sqrt(variance_) : 1 / Base::inverse_root(variance_))
                           : 1 / r_ - eps;
        return 1 / root / r_;
      }
      case EpsPlacement::floor:
        if (std::isnan(variance_)) return 1 / (r_ * r_) > eps ? S(1) : S(0);
        return variance_ > eps ? S(1) : S(0);
    }
    return S(1);
  }

  void train(const std::vector<Item>& all) {
    std::vector<Item> items = all;
    if (how_.bug == Bug::sum_over_all_but_the_last && items.size() > 1) items.pop_back();
    const auto n = static_cast<std::int64_t>(all.size());
    const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    std::int64_t divisor = n_minus_1 ? n - 1 : n;
    const bool fold = claim_.form == AffineForm::folded && !problem_.from_output && how_.hat_in_sum == false;
    const bool outside = how_.gamma_outside && constant_;
    const A w = problem_.gamma && how_.bug != Bug::gamma_ignored ? static_cast<A>(all[0].w) : A(1);
    const auto weigh = [&](A value) { return problem_.gamma ? w * value : value; };

    const bool reuses = outside && one_channel_ && how_.reuse && how_.bug == Bug::none;
    // Σg, and Σ g d (or Σ g x̂).
    const A up =
        outside ? (reuses ? own_dbeta_ : sum_of(items, [](const Item& i) { return static_cast<A>(i.dy); })) : A(0);
    const A s1 = outside ? weigh(up) : sum_of(items, [&](const Item& i) { return g_of(i); });
    A gd = 0;  // the sum with d
    A gh = 0;  // the sum with x̂
    const bool with_hat = problem_.from_output || reuses || how_.hat_in_sum;
    A gx = 0;
    if (reuses) {
      gh = weigh(own_dgamma_);
    } else if (with_hat) {
      gh = outside ? weigh(sum_of(items, [&](const Item& i) { return term(i.dy, hat(i)); }))
                   : sum_of(items, [&](const Item& i) { return g_of(i) * static_cast<A>(hat(i)); });
    } else if (fold) {
      gx = outside ? weigh(sum_of(items, [&](const Item& i) { return term(i.dy, i.x); }))
                   : sum_of(items, [&](const Item& i) { return g_of(i) * static_cast<A>(i.x); });
      gd = row_.centred ? multiply_add(static_cast<A>(-mean_), s1, gx, style_.contract) : gx;
      gh = static_cast<A>(static_cast<S>(gd) * r_);
    } else {
      gd = outside ? weigh(sum_of(items, [&](const Item& i) { return term(i.dy, difference(i)); }))
                   : sum_of(items, [&](const Item& i) { return g_of(i) * static_cast<A>(difference(i)); });
      gh = static_cast<A>(static_cast<S>(gd) * r_);
    }
    const bool has_gd = !with_hat;
    const bool zero = divisor == 0 && problem_.convention.single != SingleCount::nan;
    const auto mean_of = [&](A value) {  // over N_v
      if (zero) return S(0);
      if (divisor == 0) return static_cast<S>(value / A(0));
      if (how_.bug == Bug::hat_term_over_n_minus_1) return static_cast<S>(divided(value, n - 1));
      return over(value, divisor, n);
    };
    S k = zero ? S(0) : ratio();
    if (how_.bug == Bug::no_hat_term) k = 0;
    if (how_.bug == Bug::eps_in_hat_term) k = k * variance_ * (r_ * r_);
    const S c1 = row_.centred && how_.bug != Bug::no_mean_term ? static_cast<S>(divided(s1, n)) : S(0);
    const S c = k == 1 ? mean_of(gh) : k == 0 ? S(0) : mean_of(gh) * k;

    Association how = how_.association;
    const bool textbook = use_ == SavedUse::textbook && row_.centred && !problem_.from_output;
    const bool may_centre = textbook || (use_ == SavedUse::recomputes && row_.centred);
    if ((how == Association::through_variance || how == Association::centred_hat) && !may_centre)
      how = Association::brackets;
    if (textbook && how != Association::through_variance) how = Association::centred_hat;
    if (how == Association::through_variance && (!has_gd || divisor == 0)) how = Association::centred_hat;
    if (how == Association::product && (claim_.divides_by_n || n_minus_1 || zero)) how = Association::brackets;
    if (how == Association::gamma_last && !(constant_ && problem_.gamma)) how = Association::brackets;
    if (how == Association::folded && !(fold && has_gd)) how = Association::sum_of_pull;
    if (how == Association::over_radicand &&
        (!has_gd || std::isnan(variance_) || problem_.convention.eps != EpsPlacement::inside))
      how = Association::separate;
    if (how_.bug != Bug::none) how = textbook ? Association::centred_hat : Association::brackets;
    const bool contract = style_.contract;

    S mean_hat = 0;
    if (how == Association::centred_hat)
      mean_hat = static_cast<S>(divided(sum_of(all, [&](const Item& i) { return static_cast<A>(hat(i)); }), n));
    const A sum_d = how == Association::through_variance
                        ? sum_of(all, [&](const Item& i) { return static_cast<A>(difference(i)); })
                        : A(0);
    for (const Item& item : all) {
      S dx = 0;
      const S g = s_of(item);
      switch (how) {
        case Association::brackets:
          dx = r_ * multiply_add(-hat(item), c, g - c1, contract);
          break;
        case Association::sum_of_pull:
          dx = r_ * (g - multiply_add(hat(item), c, c1, contract));
          break;
        case Association::separate: {
          if (problem_.from_output || !has_gd) {
            dx = multiply_add(-hat(item), r_ * c, multiply_add(r_, g, -(r_ * c1), contract), contract);
            break;
          }
          const S b = (r_ * r_ * r_) * mean_of(gd) * k;
          dx = multiply_add(-difference(item), b, multiply_add(r_, g, -(r_ * c1), contract), contract);
          break;
        }
        case Association::product: {
          const S inverse = S(1) / static_cast<S>(n);
          const S scaled = problem_.gamma ? (static_cast<S>(n) * item.w) * item.dy : static_cast<S>(n) * item.dy;
          S p = static_cast<S>(gh);
          if (k != 1) p = p * k;
          const S bracket = multiply_add(-hat(item), p, scaled, contract) - (row_.centred ? static_cast<S>(s1) : S(0));
          dx = bracket * (inverse * r_);
          break;
        }
        case Association::through_variance: {
          const S variance_gradient = static_cast<S>(-0.5F) * ((r_ * r_ * r_) * k) * static_cast<S>(gd);
          const S inner = static_cast<S>(divided(static_cast<A>(variance_gradient) * (-2 * sum_d), divisor));
          const S mean_gradient = -(r_ * static_cast<S>(s1)) + inner;
          dx = multiply_add(g, r_, over(static_cast<A>(variance_gradient * (2 * difference(item))), divisor, n),
                            contract) +
               static_cast<S>(divided(static_cast<A>(mean_gradient), n));
          break;
        }
        case Association::gamma_last: {
          const S u1 = row_.centred
                           ? static_cast<S>(divided(sum_of(all, [](const Item& i) { return static_cast<A>(i.dy); }), n))
                           : S(0);
          const S u2 = mean_of(sum_of(all, [&](const Item& i) { return term(i.dy, hat(i)); })) * k;
          dx = (item.w * r_) * multiply_add(-hat(item), u2, item.dy - u1, contract);
          break;
        }
        case Association::folded: {
          const S b = mean_of(-gd * static_cast<A>(r_)) * (r_ * r_) * k;
          const S free = row_.centred
                             ? multiply_add(-b, mean_, -static_cast<S>(divided(s1 * static_cast<A>(r_), n)), contract)
                             : S(0);
          dx = multiply_add(b, item.x, r_ * item.dy * item.w, contract) + free;
          break;
        }
        case Association::over_radicand: {
          const S b = mean_of(gd) / plus_eps(variance_);
          dx = r_ * multiply_add(-difference(item), k == 0 ? S(0) : b, g - c1, contract);
          break;
        }
        case Association::centred_hat:
        case Association::count:
          dx = r_ * multiply_add(-(hat(item) - mean_hat), c, g - c1, contract);
          break;
      }
      out_[Role::dx][item.index] = static_cast<float>(dx);
    }
  }

  GradientStyle how_;
  SavedUse use_;
  S mean_ = 0;
  S variance_ = 0;
  S r_ = 0;
  bool constant_ = false;  // γ is, in the group
  bool one_channel_ = false;
  A own_dgamma_ = 0;  // of the group at hand, where it has one channel
  A own_dbeta_ = 0;
  std::vector<Parts> dgamma_;
  std::vector<Parts> dbeta_;
  Inputs out_;
};

}  // namespace

Inputs run_gradients(const Problem& problem, const Inputs& inputs, SavedUse use, const Claim& claim,
                     const GradientStyle& style) {
  const Flushing flushing(claim.subnormals == Subnormals::flushed);
  const bool a = claim.accumulator == ScalarType::float64;
  const bool s = claim.statistics == ScalarType::float64;
  if (a && s) return Backward<double, double>(problem, inputs, use, claim, style).run();
  if (a) return Backward<double, float>(problem, inputs, use, claim, style).run();
  if (s) return Backward<float, double>(problem, inputs, use, claim, style).run();
  return Backward<float, float>(problem, inputs, use, claim, style).run();
}

GradientStyle draw_gradient_style(Draw& draw, const Claim& claim) {
  GradientStyle style;
  style.arithmetic = draw_style(draw, claim);
  style.association = static_cast<Association>(draw.below(static_cast<std::uint64_t>(Association::count)));
  for (bool* choice :
       {&style.hat_in_sum, &style.gamma_outside, &style.reuse, &style.gamma_narrow, &style.multiply_later,
        &style.running_total, &style.old_first, &style.root_from_reciprocal, &style.reciprocal_gamma})
    *choice = draw.one_in(2);
  return style;
}

std::string describe(const GradientStyle& style, const Claim& claim, SavedUse use) {
  return fmt::format(
      "use {} association {} hat_in_sum {} gamma_outside {} reuse {} gamma_narrow {} multiply_later {} running_total "
      "{} "
      "old_first {} root_from_reciprocal {} reciprocal_gamma {} bug {} | {}",
      static_cast<int>(use), static_cast<int>(style.association), style.hat_in_sum, style.gamma_outside, style.reuse,
      style.gamma_narrow, style.multiply_later, style.running_total, style.old_first, style.root_from_reciprocal,
      style.reciprocal_gamma, static_cast<int>(style.bug), describe(claim, style.arithmetic));
}

}  // namespace normgate::emulated
