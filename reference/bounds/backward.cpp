// Bounds of the backward phases: |computed - function| for every kernel that computes the function that `use` names, in
// the order and the types that it claims, in IEEE round-to-nearest, on this very input. No term is neglected.
// Contraction leaves roundings out. Notation is statistics.cpp's, and: g = dy γ, d = x - c with the centre c (μ, or the
// mean that is handed), x̂ = d r, S1 = Σg, P = Σ g x̂, ḡ = S1/n (0 where the row is not centred), s = r, 1/√v or 0 (eps
// inside, outside, as a floor above the variance). U = max(u_a, u_s).
//
//   dx = T1 - T2 - T3 (+ T4),  T1 = r g,  T2 = r ḡ,  T3 = s x̂ P/N_v,  T4 = s mean(x̂) P/N_v (textbook)
//
//  orders     Kernels differ in how they associate these products and sums: r (g - ḡ - x̂ c); r g - r ḡ - d q Σgd/N with
//             q = r² s; (r/n)(n g - S1 - x̂ P); γ r (dy - …) with γ outside where it is constant; through dvar and
//             dmean; and folded r g + x b + c. A product of factors f_i in any order is Πf_i (1+θ), |θ| <= γ_k with k
//             roundings. So each term has, on its path from the input to dx, no more than a number of roundings
//             that is stated where it is computed, and each sum is off by what its terms and additions are.
//             Underflow: each of at most k products loses η, which is multiplied by what factors remain, at most
//             Π max(1, |f_i|).
//  statistics Centre and r are exact where they are handed (r has the error of 1/D where a variance is handed), and in
//             what statistics.cpp derives where they are computed: x̂^ = d r^ - τ, |τ| <= shift, one τ and one r^ for
//             the group. s r² has the relative error e: from the ends of r^'s interval and of √v^'s. From an output, x̂
//             = (y-β)/γ depends on neither, and e is that of s.
//  S1         |S1^ - S1| <= E1 = Σ|g| ((1+G)(1+θ_g) - 1) + underflow; θ_g: the product dy γ, 1+w, a narrower sum.
//  P          P^ = r^ Σ g (d - δ_m) + error = (r^/r) P - τ S1 + error; centred: |error| <= EP = Σ|g| a ((1+G)(1+θ_p) -
//             1) + underflow, a = |d| r^ + shift; folded, r (Σgx - m S1): with (|x| + |c|) r^ + shift in place of a.
//             Both hold whether r is multiplied before or after the sum, and for γ likewise: then a sum of dgamma's
//             or dbeta's serves (before it is rounded into float32).
//  T1 - T2    |r^ - r| |g - ḡ| + r^ (E1/n + |g| θ_1 + (|S1| + E1)/n θ_2)
//  T3         s^ (x̂^ (r^/r) - τ)((r^/r) P - τ S1 ± EP)/N: |x̂ P| s e / N, then s^ times (the products of what is not
//             x̂ P), then everything computed times θ_3. Folded: b x and b m are rounded apart.
//  T4         the same with mean(x̂), and with the error of Σd^, ED = Σ a ((1+G)(1+θ) - 1): computed through dvar and
//             dmean it is not 0 where it ought to be, and then τ cancels. Where statistics are computed (recomputes), a
//             kernel may or may not do so.
//  1/√v       Where √v is taken as 1/r - eps (r handed), or as D - eps, the difference cancels. If the relative error
//             of √v reaches 1/2 nothing is judged; nor at the kink of a floor, where rounding decides between s = r and
//             s = 0.
//  exactness  As in statistics.cpp: sums of multiples of a grid below 2^24 grids (2^53 where all types are double) are
//             exact in every order, and products where they are representable. If r is handed and a power of two, n a
//             power of two (or quotients are exact and the kernel divides), all factors of T1, T2, T3 are such
//             multiples and their moduli together are below 2^24 of the finest grid, then every order gives the
//             function itself. Terms that are exact but for their last sum have the roundings of additions only.
//  dgamma, dbeta: parameter_gradients.cpp. What is known of a group before its sums: gradient_group.cpp.
#include "reference/bounds/backward.hpp"

#include <algorithm>
#include <cmath>

#include "reference/bounds/gradient_group.hpp"
#include "reference/bounds/judged.hpp"
#include "reference/bounds/parameter_gradients.hpp"

namespace normgate {
namespace {

using namespace bounds;

// Whether all products of a multiple of `grid_a` below `a` and one of `grid_b` below `b` have at most log2(limit) bits.
bool product_fits(double a, double grid_a, double b, double grid_b, double limit) {
  return a == 0 || b == 0 || a * b <= limit * (grid_a * grid_b);
}

// What is summed over a group, in double from exact values.
struct Sums {
  // Of what the function consists of, and their moduli.
  double g = 0, gd = 0, hat = 0, d = 0;
  double modulus_g = 0, modulus_gd = 0, modulus_gx = 0, modulus_d = 0;
  // Of what the kernel computes, before its roundings: |g| a, |g| (|x| + |c|) r^, a, (|x| + |c|) r^.
  double g_reach = 0, g_wide = 0, reach = 0, wide = 0;
  // What underflow takes from Σg, P and Σx̂.
  double g_absolute = 0, p_absolute = 0, hat_absolute = 0;
  // For the range, with γ before or after: max(|g|, |dy|), its products with raw differences and with x̂, Σ raw.
  double either = 0, raw_products = 0, hat_products = 0, raw = 0;
  double largest_g = 0, largest_hat = 0, largest_raw = 0, largest_wide = 0, largest_gamma = 0, largest_dy = 0;
};

Sums sums_of(const GradientModel& m, const Frame& frame, const std::vector<Element>& elements) {
  Sums s;
  const double r = frame.reciprocal.high;
  for (const Element& e : elements) {
    const double g = std::fabs(e.g);
    const double w = std::fabs(e.gamma);
    const double dy = std::fabs(e.dy);
    s.g += e.g;
    s.gd += e.g * e.d;
    s.hat += e.hat;
    s.d += e.d;
    s.modulus_g += g;
    s.modulus_gd += std::fabs(e.g * e.d);
    s.modulus_d += std::fabs(e.d);
    if (m.folded && !m.from_output) s.modulus_gx += g * std::fabs(static_cast<double>(m.inputs[Role::x][e.index]));
    s.g_reach += g * e.reach;
    s.g_wide += g * e.wide;
    s.reach += e.reach;
    s.wide += e.wide;
    s.g_absolute += e.g_absolute;
    s.p_absolute += g * e.hat_absolute + (m.folded ? e.wide : e.reach) * e.g_absolute +
                    4 * m.eta * at_least_one(w) * at_least_one(dy) * at_least_one(r) * at_least_one(e.raw) * e.divided;
    s.hat_absolute += e.hat_absolute;
    const double either = std::max(g, dy);
    s.either += either;
    s.raw_products += either * e.raw;
    s.hat_products += either * e.reach;
    s.raw += e.raw;
    s.largest_g = std::max(s.largest_g, g);
    s.largest_hat = std::max(s.largest_hat, std::fabs(e.hat));
    s.largest_raw = std::max(s.largest_raw, e.raw);
    s.largest_wide = std::max(s.largest_wide, e.wide);
    s.largest_gamma = std::max(s.largest_gamma, w);
    s.largest_dy = std::max(s.largest_dy, dy);
  }
  if (m.flushed) {
    const double partial = frame.n * m.eta_a * at_least_one(s.largest_gamma);
    s.g_absolute += partial;
    s.p_absolute += partial * at_least_one(r) * (m.folded ? 1 + std::fabs(frame.centre.hi) : 1);
  }
  return s;
}

// Which sums, quotients and terms have no rounding in whatever order they are computed.
struct Exactness {
  bool s1 = false;
  bool p = false;
  bool mean_hat = false;  // Σx̂, by which the textbook's form subtracts
  bool t1 = false;
  bool t2 = false;
  bool t3 = false;
  bool sum = false;  // all of them, and dx
};

Exactness exactness_of(const GradientModel& m, const Frame& frame, const Grids& grids, const Sums& s,
                       bool product_form) {
  Exactness exact;
  if (!grids.safe || m.from_output) return exact;
  const double c = std::fabs(frame.centre.hi);
  const double c_grid = grid_of(frame.centre.hi);
  const auto below = [&](double modulus, double grid) { return grid == infinity || modulus < m.limit * grid; };
  const std::int64_t count = m.groups.size();
  const auto divides = [&](double value) {
    return value == 0 || is_power_of_two(count) ||
           (m.divides_exactly(count) && grids.powers && quotient_is_float32(value, frame.n));
  };
  const bool scales = frame.power;  // otherwise every x̂ is rounded
  exact.s1 = grids.products && below(s.modulus_g, grids.g);
  exact.mean_hat = scales && grids.differences && below(s.modulus_d, grids.d);
  exact.p = scales && exact.s1 && grids.differences && below(s.modulus_gd, grids.gd);
  if (m.folded && exact.p)
    exact.p = below(s.modulus_gx + c * s.modulus_g, std::min(grids.gx, c == 0 ? infinity : c_grid * grids.g));
  exact.t1 = scales && grids.products && !product_form;
  exact.t2 = scales && (!m.row.centred || (exact.s1 && divides(s.g)));
  // T3: products of d (folded: of x and c) with Σgd and with its mean.
  const double mean_gd = s.gd / frame.n;
  const double outer = m.folded ? std::max(grids.largest_x, c) : grids.largest_d;
  const double outer_grid = m.folded ? std::min(grids.x, c_grid) : grids.d;
  const bool response_exact = frame.s == 0 || (m.problem.convention.eps != EpsPlacement::outside && frame.e == 0);
  exact.t3 = exact.p && (s.gd == 0 || frame.s == 0 ||
                         (response_exact && frame.divisor == frame.n && divides(s.gd) &&
                          product_fits(outer, outer_grid, std::fabs(s.gd), grid_of(s.gd), m.limit) &&
                          product_fits(outer, outer_grid, std::fabs(mean_gd), grid_of(mean_gd), m.limit)));
  const bool no_mean = !m.row.centred || (m.handed && !m.textbook) || (exact.mean_hat && s.d == 0);
  if (!(exact.t1 && exact.t2 && exact.t3 && exact.s1 && no_mean)) return exact;
  const double r = frame.r;
  const double mean_g = m.row.centred ? s.g / frame.n : 0;
  const double pull = frame.s == 0 ? 0 : mean_gd * r * r * r;
  const double finest = std::min({grids.g * r, grid_of(mean_g * r), pull == 0 ? infinity : grid_of(pull) * outer_grid});
  const double most = r * (grids.largest_g + std::fabs(mean_g)) + std::fabs(pull) * outer * (m.folded ? 2 : 1);
  exact.sum = finest == infinity || most <= m.limit * finest;
  return exact;
}

class Backward {
 public:
  Backward(const Problem& problem, const Inputs& inputs, const Truth& truth, SavedUse use, const Claim& claim)
      : model_(problem, inputs, truth, use, claim), parameters_(model_) {}

  Bounds run() {
    const GradientModel& m = model_;
    for (const Role role : {Role::dx, Role::dgamma, Role::dbeta}) {
      bounds_.tolerance[role].assign(m.truth.out[role].size(), infinity);
      bounds_.scale[role].assign(m.truth.out[role].size(), 0x1p-126);
    }
    bounds_.in_range.assign(static_cast<std::size_t>(m.groups.count()), true);
    for (std::int64_t q = 0; q < (m.groups.size() > 0 ? m.groups.count() : 0); ++q) {
      const Frame frame = m.frame_of(q);
      const std::vector<Element> elements = m.elements_of(q, frame);
      bool range = frame.squares_fit;
      if (m.training)
        judge_training(frame, elements, range);
      else
        judge_inference(frame, elements);
      bounds_.in_range[static_cast<std::size_t>(q)] = range;
      parameters_.take_in(frame, elements, range);
    }
    parameters_.judge(bounds_);
    return std::move(bounds_);
  }

 private:
  void set(const Element& element, double tolerance, double scale, bool judged) {
    enter(bounds_, model_.truth, Role::dx, element.index, tolerance, scale, judged);
  }
  [[nodiscard]] const Exact& truth_of(const Element& element) const {
    return model_.truth.out[Role::dx][element.index];
  }

  // dx = γ r dy: roundings of two products and of 1+w.
  void judge_inference(const Frame& frame, const std::vector<Element>& elements) {
    const GradientModel& m = model_;
    const double theta = gamma_factor(m.gamma_roundings() + 1, m.u_s);
    const double slack = GradientModel::slack(m.groups.size());
    double largest = 0;
    for (const Element& element : elements)
      if (std::isfinite(element.g)) largest = std::max(largest, std::fabs(element.g));
    for (const Element& element : elements) {
      const bool finite = std::isfinite(element.dy) && std::isfinite(element.gamma);
      const Exact& exact = truth_of(element);
      if (frame.nan) {
        set(element, 0, 0, finite && std::isnan(exact.hi));
        continue;
      }
      const double g = std::fabs(element.g);
      const double w = std::fabs(element.gamma);
      const double dy = std::fabs(element.dy);
      const double r = frame.reciprocal.high;
      const bool exactly = frame.power && element.exact_g && is_float32(element.g * frame.r) &&
                           std::min(grid_of(element.g), grid_of(element.dy)) > 0x1p-60 &&
                           grid_of(element.gamma) > 0x1p-60 && r > 0x1p-40 && r < 0x1p40;
      double error = 0;
      if (!exactly)
        error = frame.r_error * g + r * g * theta + r * element.g_absolute * (1 + theta) +
                3 * m.eta * at_least_one(r) * at_least_one(w) * at_least_one(dy) + m.zeta * g + 2 * m.eta_out;
      error += last_rounding(exact, exactly, m.to_float32) * (std::fabs(exact.hi) + error);
      const bool fits = r * at_least_one(w) * at_least_one(dy) < m.top && w * dy < m.top;
      set(element, error * slack, frame.r * largest, finite && frame.r_known && fits);
    }
  }

  // No intermediate overflows, in whatever order the factors are multiplied.
  [[nodiscard]] bool fits(const Frame& frame, const Sums& s, double s_high, double computed_p, bool with_mean) const {
    const GradientModel& m = model_;
    const double r = frame.reciprocal.high;
    const double square = m.from_output ? 1 : r * r;
    const double big = at_least_one(s.largest_raw);
    const double response = std::max(s_high, r);  // a term that is 0 may be multiplied by 0
    const double products = at_least_one(s.raw_products);
    const double normalized = s.largest_hat * frame.up + frame.shift;
    return s.hat_products <= 0x1p127 && frame.n * s.largest_g < m.top &&
           at_least_one(response) * at_least_one(square) * at_least_one(r) < m.top &&
           response * square * products * big < m.top && big * products < m.top && s.largest_gamma * big < m.top &&
           s.largest_dy * at_least_one(s.largest_gamma) * big < m.top && r * at_least_one(s.largest_gamma) < m.top &&
           r * (s.largest_g + s.largest_dy + s.modulus_g) < m.top &&
           normalized * at_least_one(std::max(s.hat_products, computed_p)) < m.top &&
           (!m.folded || s.largest_wide * products < m.top) &&
           (!with_mean || (2 * response * square * products * at_least_one(s.raw) < m.top));
  }

  // `range` becomes false where sums may overflow.
  void judge_training(const Frame& frame, const std::vector<Element>& elements, bool& range) {
    const GradientModel& m = model_;
    bool finite = frame.mean_finite;
    for (const Element& element : elements)
      finite = finite && element.finite && std::isfinite(element.dy) && std::isfinite(element.gamma);
    if (!finite) return;
    // 0/0 where the convention says so; where it says 0, nothing but r (g - ḡ) is left.
    const bool zero_divisor = frame.divisor == 0;
    const bool stated_zero = zero_divisor && m.problem.convention.single != SingleCount::nan;
    if (frame.nan || (zero_divisor && !stated_zero)) {
      for (const Element& element : elements)
        set(element, 0, 0, std::isnan(truth_of(element).hi) && (frame.nan || !m.handed));
      return;
    }
    if (!frame.judged || (stated_zero && elements[0].d != 0)) return;

    const double n = frame.n;
    const double divisor = stated_zero ? 1 : frame.divisor;
    const double s_high = stated_zero ? 0 : frame.s_high;
    const double s = stated_zero ? 0 : frame.s;
    const double r = frame.reciprocal.high;
    const double shift = frame.shift;
    const Grids grids = m.grids_of(frame, elements);
    const Sums sums = sums_of(m, frame, elements);
    // The product form (r/n)(n g - S1 - x̂ P) has the roundings of r/n and of n g; where the kernel says that it
    // divides, or n is a power of two, there are none.
    const bool product_form = !is_power_of_two(m.groups.size()) && !m.claim.divides_by_n;
    const Exactness exact = exactness_of(m, frame, grids, sums, product_form);
    // |S1| and |P|, whose own rounding in double is at most `doubt` of the moduli.
    const double doubt = (n + 8) * 0x1p-52;
    const double s1 = m.row.centred ? std::fabs(sums.g) + doubt * sums.modulus_g : 0;
    const double p = (std::fabs(sums.gd) + doubt * sums.modulus_gd) * (m.from_output ? 1 : frame.r);

    // E1.
    const double factor = sum_factor(m.claim.group_sum, m.groups.size(), m.claim.accumulator);
    const double theta_g = gamma_factor(m.gamma_roundings() + m.narrow, m.u);
    const double e1 =
        !m.row.centred || exact.s1 ? 0 : sums.modulus_g * compound({factor, theta_g}) + (1 + factor) * sums.g_absolute;

    // EP. Centred: x̂'s own roundings, the product, narrower factors. Folded: g x, the sum, m S1, the difference, r;
    // from an output dy y - β dy, and γ and 1/γ beside.
    const double hat_k = m.hat_roundings(grids.differences);
    const double theta_hat = gamma_factor(hat_k, m.u);
    double ep = 0;
    if (!exact.p) {
      const double theta_p = m.folded ? compound({theta_g, gamma_factor((m.from_output ? 7 : 5) + m.narrow, m.u)})
                                      : compound({theta_g, theta_hat, gamma_factor(1 + m.narrow, m.u)});
      ep = (m.folded ? sums.g_wide : sums.g_reach) * compound({factor, theta_p}) + (1 + factor) * sums.p_absolute;
    }
    const double p_up = p * frame.up;
    const double computed_p = p_up + shift * s1 + ep;

    // Roundings on the paths to dx. Of the additions that put it together:
    const double additions = exact.sum ? 0 : (m.row.centred ? 2 : 1) + (m.folded ? 1 : 0);
    const double theta_sum = gamma_factor(additions, m.u_s);
    const double t = m.any_division();
    const double t_divisor = m.any_division_by_divisor();
    // T1: g's own, r, the product form's, and the additions.
    const double theta_1 = exact.t1 ? theta_sum
                                    : compound({gamma_factor(m.gamma_roundings() + 1 + additions, m.u_s),
                                                product_form ? compound({t, m.u_s}) : 0});
    // T2: the quotient, r (or γ r), a sum more in the textbook's form, and the additions.
    // There (-r S1 + Σd^ …)/n is rounded even where r S1/n is exact, unless Σd^ is 0.
    const bool with_mean = m.row.centred && !m.from_output && (m.textbook || !m.handed);
    const bool no_fourth = !with_mean || (exact.mean_hat && sums.d == 0);
    const double theta_2 = exact.t2 && no_fourth ? theta_sum : compound({t, gamma_factor(additions + 2, m.u)});
    // T3: x̂'s own, the quotient, the products c x̂ and with r or s, the powers r² or r³, x̂ - mean(x̂), the additions.
    const double theta_3 = exact.t3 ? theta_sum
                                    : compound({t_divisor, gamma_factor(m.folded ? hat_k : 0, m.u), theta_hat,
                                                gamma_factor(additions + 4, m.u)});
    const double theta_4 = compound({t_divisor, t, gamma_factor(additions + 6, m.u)});

    // T4, the same for all elements. Where statistics are computed it is 0 but for ED and for τ's roundings.
    double fourth = 0;
    if (!no_fourth) {
      const double ed = exact.mean_hat ? 0
                                       : (m.folded ? sums.wide : sums.reach) *
                                                 compound({factor, theta_hat, gamma_factor(1 + m.narrow, m.u)}) +
                                             (1 + factor) * sums.hat_absolute;
      const double mean_hat = m.textbook ? (std::fabs(sums.hat) + doubt * sums.reach) / n : 0;
      const double up = mean_hat * frame.up;
      fourth = mean_hat * s * p * frame.e + s_high * computed_p * (ed / n + (up + shift + ed / n) * theta_4);
      if (m.textbook) fourth += s_high * (shift * p_up + up * shift * s1 + shift * shift * s1 + (up + shift) * ep);
      fourth /= divisor;
    }
    const double powers = m.from_output ? 1 : at_least_one(r) * at_least_one(r);
    const double lost = 12 * m.eta * at_least_one(s_high) * powers * at_least_one(sums.raw_products + computed_p) *
                        (with_mean ? at_least_one(sums.modulus_d) : 1);

    range = range && sums.either <= 0x1p127 && sums.raw_products <= 0x1p127;
    const bool judged = range && fits(frame, sums, s_high, computed_p, with_mean);
    const double mean_g = m.row.centred ? sums.g / n : 0;
    const double scale = frame.r * (sums.largest_g + sums.largest_hat * p / n);
    const double slack = GradientModel::slack(m.groups.size());
    for (const Element& e : elements) {
      const double g = std::fabs(e.g);
      const double base = std::fabs(e.g - mean_g) + 0x1p-51 * g + (m.row.centred ? doubt * sums.modulus_g / n : 0);
      double error = frame.r_error * base + r * (e1 / n + g * theta_1 + (s1 + e1) / n * theta_2);
      if (!exact.t1)
        error += r * e.g_absolute * (1 + theta_1) +
                 4 * m.eta * at_least_one(r) * at_least_one(std::fabs(e.gamma)) * at_least_one(std::fabs(e.dy)) +
                 (product_form ? m.eta * n * g : 0) + 3 * m.eta * at_least_one(r) + m.zeta * g;
      if (!exact.t2 && m.row.centred) error += 4 * m.eta * at_least_one(r) * at_least_one(sums.either + e1);
      if (s_high > 0) {
        const double hat = std::fabs(e.hat);
        const double up = hat * frame.up;
        const double tau = shift + (exact.t3 ? 0 : e.hat_absolute);
        error += (hat * s * p * frame.e + s_high * (tau * p_up + (up + tau) * (shift * s1 + ep)) +
                  s_high * ((m.folded ? e.wide : up) + tau) * computed_p * theta_3) /
                     divisor +
                 fourth;
        if (!exact.t3 || fourth > 0) error += lost * at_least_one(e.raw);
      }
      const Exact& exact_dx = truth_of(e);
      if (!exact.sum) error += 3 * m.eta_out + (m.flushed ? 3 * m.eta_s * at_least_one(r) : 0);
      error += last_rounding(exact_dx, exact.sum, m.to_float32) * (std::fabs(exact_dx.hi) + error);
      set(e, error * slack, scale, judged);
    }
  }

  GradientModel model_;
  ParameterGradients parameters_;
  Bounds bounds_;
};

}  // namespace

Bounds backward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, SavedUse use,
                       const Claim& claim) {
  return Backward(problem, inputs, truth, use, claim).run();
}

}  // namespace normgate
