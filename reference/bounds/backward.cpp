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
//  dgamma     Σ dy x̂^, over groups: what δ_m and r^ do to a group's terms is common to them, so that it is |Σ dy x̂|
//             |r^-r|/r + shift |Σ dy| of the group's share. The depth of the whole sum is of both sums together; where
//             the sum over groups is sequential, the terms of one group may go one by one into the total.
//  dbeta      Σ dy: G Σ|dy|. Old values are one term more.
#include "reference/bounds/backward.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "reference/bounds/statistics.hpp"
#include "reference/problem/affine.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

using namespace bounds;

bool is_power_of_two(double value) {
  int exponent = 0;
  return value > 0 && std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

double at_least_one(double value) { return std::max(1.0, value); }

// Whether the rounded sum of a and b is their sum (Knuth's two-sum).
bool adds_exactly(double a, double b, double sum) {
  const double part = sum - a;
  return (a - (sum - part)) + (b - part) == 0;
}

// Whether all products of a multiple of `grid_a` below `a` and one of `grid_b` below `b` have at most log2(limit) bits.
bool product_fits(double a, double grid_a, double b, double grid_b, double limit) {
  return a == 0 || b == 0 || a * b <= limit * (grid_a * grid_b);
}

struct Element {
  std::size_t index = 0;
  std::size_t channel = 0;
  double dy = 0;
  double gamma = 1;         // as used
  double g = 0;             // dy γ
  double d = 0;             // x - c; from an output: x̂
  double hat = 0;           // x̂
  double reach = 0;         // a: at least |x̂^| before its own roundings
  double wide = 0;          // (|x| + |c|) r^ + shift
  double raw = 0;           // |d| + δ, folded: |x| + |c| + δ
  double g_absolute = 0;    // underflow of g, and what reading dy or γ as 0 costs
  double hat_absolute = 0;  // the same of x̂
  double divided = 1;       // from an output: what a division by γ makes of what was lost before it
  bool exact_g = false;     // 1+w and g are float32
  bool finite = true;       // dy, γ and whatever x̂ depends on besides the statistics
};

// One group as the function and the kernel see it.
struct Frame {
  double n = 0;
  double divisor = 0;  // N_v
  double r = 0;
  Interval reciprocal;  // of |r^|
  double r_error = 0;
  double up = 1;  // max |r^| / |r|; 1 from an output, where x̂ has no r
  double s = 0;
  double s_high = 0;
  double e = 0;  // relative error of s r², or of s
  double shift = 0;
  double delta = 0;     // of the centre
  bool r_known = true;  // the reciprocal's bounds mean something
  bool judged = true;   // dx is: s is decided
  bool mean_finite = true;
  bool nan = false;
  bool power = false;  // r is exact and a power of two
};

// What is summed up over a channel for its parameter gradients.
struct Channel {
  double terms = 0;     // Σ|dy x̂|
  double computed = 0;  // Σ of what is summed in the end, in moduli
  double error = 0;     // what the terms are off by together
  double products = 0;  // Σ|dy| (|d| + |x̂|): may overflow
  double upstream = 0;  // Σ|dy|
  double upstream_error = 0;
  double term_grid = infinity;
  double upstream_grid = infinity;
  bool exact = true;
  bool judged = true;
  bool finite = true;  // what dgamma depends on
  bool upstream_finite = true;
};

class Backward : private StatisticsBounds {
 public:
  Backward(const Problem& problem, const Inputs& inputs, const Truth& truth, SavedUse use, const Claim& claim)
      : StatisticsBounds(problem, claim),
        problem_(problem),
        inputs_(inputs),
        truth_(truth),
        claim_(claim),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        training_(problem.phase == Phase::backward_training),
        from_output_(problem.from_output),
        handed_(training_ && problem.saved &&
                (from_output_ || use == SavedUse::short_form || use == SavedUse::textbook)),
        textbook_(handed_ && row_.centred && use == SavedUse::textbook && !from_output_),
        folded_(claim.form == AffineForm::folded),
        n_minus_1_(row_.centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1),
        plus_one_(problem.gamma && problem.convention.gamma == GammaOffset::plus_one),
        u_(std::max(u_a, u_s)),
        eta_(std::max(eta_a, eta_s)),
        limit_(u_ == unit_float32 ? 0x1p24 : 0x1p53),
        top_(u_ == unit_float32 ? 0x1p127 : 0x1p1000),
        narrow_(u_a > u_s ? 1 : 0) {}

  Bounds run() {
    allocate();
    for (std::int64_t q = 0; q < (groups_.size() > 0 ? groups_.count() : 0); ++q) {
      const Frame frame = frame_of(q);
      const std::vector<Element> elements = elements_of(q, frame);
      judge_dx(q, frame, elements);
      take_in(q, frame, elements);
    }
    judge_parameters();
    return std::move(bounds_);
  }

 private:
  void allocate() {
    for (const Role role : {Role::dx, Role::dgamma, Role::dbeta}) {
      bounds_.tolerance[role].assign(truth_.out[role].size(), infinity);
      bounds_.scale[role].assign(truth_.out[role].size(), 0x1p-126);
    }
    bounds_.in_range.assign(static_cast<std::size_t>(groups_.count()), true);
    const auto channels = static_cast<std::size_t>(element_count(restricted(problem_.shape, row_.affine)));
    channels_.resize(channels);
    sum_of_products_.assign(channels, 0);
    sum_of_dy_.assign(channels, 0);
  }

  // The statistics that the function is made of, and the kernel's.
  Frame frame_of(std::int64_t q) {
    const auto at = static_cast<std::size_t>(q);
    Frame frame;
    const std::int64_t n = groups_.size();
    frame.n = static_cast<double>(n);
    frame.divisor = static_cast<double>(n_minus_1_ ? n - 1 : n);
    Group group;
    Statistics s;
    if (training_ && !handed_) {
      group = gather(groups_, q, inputs_[Role::x], truth_.groups[at]);
      centre_ = truth_.groups[at].mean;
      s = trained(group);
      bounds_.in_range[at] = group.finite && squares_fit(group) && s.fits;
      frame.mean_finite = group.finite;
      frame.nan = s.nan && group.finite;
    } else {
      group = handed_ ? handed_group(at) : given_group(at);
      group.n = n;
      frame.mean_finite = std::isfinite(group.mean);
      // 1/D does not depend on the mean.
      Group of_spread = group;
      if (!frame.mean_finite) of_spread.mean = 0;
      s = given(of_spread);
      frame.nan = s.nan;
    }
    slack_ = slack(n);
    frame.r = std::fabs(group.rstd);
    frame.reciprocal = s.rstd;
    frame.r_error = s.rstd_error;
    frame.shift = s.shift;
    frame.delta = s.mean_error;
    // A variance above 2^127 may overflow when eps is added.
    frame.r_known = std::isfinite(frame.r) && std::isfinite(s.rstd.high) && std::isfinite(s.rstd_error) &&
                    !(group.variance > 0x1p127);
    if (!frame.r_known) {
      frame.judged = false;
      return frame;
    }
    frame.power = s.rstd.low == s.rstd.high && is_power_of_two(frame.r);
    const double up = frame.r > 0 ? s.rstd.high / frame.r : 1;
    const double down = frame.r > 0 ? s.rstd.low / frame.r : 1;
    frame.up = from_output_ ? 1 : up;
    if (training_) respond(group, s, up, down, frame);
    return frame;
  }

  // Mean, variance and 1/D as they are handed to a backward_training, taken for exact.
  Group handed_group(std::size_t at) {
    Group group;
    const auto stat = static_cast<double>(inputs_[Role::stat][at]);
    group.mean = row_.centred && !from_output_ ? static_cast<double>(inputs_[Role::mean][at]) : 0;
    centre_ = {group.mean, 0, 0};
    const double v = problem_.convention.saved == SavedStatistic::variance ? stat : std::nan("");
    group.variance = v;
    switch (problem_.convention.eps) {
      case EpsPlacement::inside:
        group.rstd = 1 / std::sqrt(v + problem_.eps);
        break;
      case EpsPlacement::outside:
        group.rstd = 1 / (std::sqrt(v) + problem_.eps);
        break;
      case EpsPlacement::floor:
        group.rstd = 1 / std::sqrt(std::max(v, problem_.eps));
        break;
    }
    if (problem_.convention.saved == SavedStatistic::rstd) group.rstd = stat;
    return group;
  }
  Group given_group(std::size_t at) {
    Group group;
    const GroupTruth& exact = truth_.groups[at];
    centre_ = exact.mean;
    group.mean = exact.mean.hi;
    group.variance = exact.variance.hi;
    group.rstd = exact.rstd.hi;
    return group;
  }

  // s, its upper end and the relative error e of s r² (from an output: of s).
  void respond(const Group& group, const Statistics& statistics, double up, double down, Frame& frame) const {
    const bool reciprocal_handed = handed_ && problem_.convention.saved == SavedStatistic::rstd;
    double s_up = up;
    double s_down = down;
    frame.s = frame.r;
    if (problem_.convention.eps == EpsPlacement::outside) {
      double root = 0;
      double above = 0;  // relative errors of √v^
      double below = 0;
      if (reciprocal_handed) {
        root = 1 / frame.r - problem_.eps;
        if (!(frame.r >= 0x1p-120)) root = -1;
      } else {
        root = std::sqrt(group.variance);
        if (statistics.variance.high == 0 && statistics.variance.low == 0) {
          frame.s = frame.s_high = 0;  // the term is left out where the variance is 0
          return;
        }
        const double low = statistics.variance.low - (flushed ? eta_s : 0);
        above = std::sqrt(statistics.variance.high / group.variance) - 1;
        below = low > 0 ? 1 - std::sqrt(low / group.variance) : 1;
      }
      // Of the root itself, and as D - eps: D's sum and quotient (as 1/r^), the quotient back, the difference.
      const double back = 4 * u_s * (root + problem_.eps) / root + parameter_roundoff() * problem_.eps / root;
      const double own = 2 * u_s + 2 * u_s * claim_.rsqrt_ulp + back + 0x1p-48;
      above = compound({above, own});
      below = below + own;
      if (!(root > 0) || !(std::max(above, below) < 0.5)) {
        frame.judged = false;
        return;
      }
      frame.s = 1 / root;
      s_up = 1 / (1 - below);
      s_down = 1 / (1 + above);
    } else if (problem_.convention.eps == EpsPlacement::floor) {
      double low = statistics.variance.low;
      double high = statistics.variance.high;
      if (reciprocal_handed) {
        // 1/r² > eps, r² eps < 1 or the like: at most four roundings.
        const double v = 1 / (frame.r * frame.r);
        low = v * (1 - 8 * u_);
        high = v * (1 + 8 * u_);
        if (!(frame.r >= 0x1p-60 && frame.r <= 0x1p60)) low = 0, high = infinity;
      }
      if (flushed) low = std::min(low, std::max(0.0, low - eta_s));
      // eps itself may be rounded into the type of v.
      if (high < eps().low * (1 - u_s)) {
        frame.s = frame.s_high = 0;
        return;
      }
      if (!(low > eps().high * (1 + u_s))) {
        frame.judged = false;
        return;
      }
    }
    frame.s_high = frame.s * s_up;
    frame.e = from_output_ ? std::max(s_up - 1, 1 - s_down)
                           : std::max(compound({s_up - 1, up - 1, up - 1}), 1 - s_down * down * down);
    if (frame.power && problem_.convention.eps != EpsPlacement::outside) {
      frame.s_high = frame.s;
      frame.e = 0;
    }
  }

  std::vector<Element> elements_of(std::int64_t q, const Frame& frame) const {
    std::vector<Element> elements;
    elements.reserve(static_cast<std::size_t>(groups_.size()));
    const double c = std::fabs(centre_.hi);
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      Element element;
      element.index = static_cast<std::size_t>(i);
      element.channel = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
      element.dy = static_cast<double>(inputs_[Role::dy][element.index]);
      element.gamma = gamma_in_use(problem_, inputs_, row_, at);
      element.g = element.dy * element.gamma;
      element.exact_g =
          is_float32(element.gamma) && is_float32(element.g) &&
          (!plus_one_ || adds_exactly(1, static_cast<double>(inputs_[Role::gamma][element.channel]), element.gamma));
      const double w = std::fabs(element.gamma);
      const double dy = std::fabs(element.dy);
      element.g_absolute = (problem_.gamma ? eta_ * (1 + w) : 0) + zeta * (1 + w + dy);
      if (from_output_) {
        const auto y = static_cast<double>(inputs_[Role::y][element.index]);
        const double beta = beta_in_use(problem_, inputs_, row_, at);
        element.d = element.hat = (y - beta) / element.gamma;
        element.divided = problem_.gamma ? at_least_one(1 / w) : 1;
        element.reach = std::fabs(element.hat);
        element.wide = (std::fabs(y) + std::fabs(beta)) / w;
        element.raw = element.wide * at_least_one(w);  // before or after the division
        element.hat_absolute = (eta_ * (1 + 1 / w) + 2 * zeta / w) * 1.01;
        element.finite = std::isfinite(element.hat) && w >= 0x1p-120 && w <= 0x1p120;
      } else {
        const auto x = static_cast<double>(inputs_[Role::x][element.index]);
        element.d = row_.centred ? minus(x, centre_) : x;
        element.hat = element.d * frame.r;
        element.reach = std::fabs(element.d) * frame.reciprocal.high + frame.shift;
        element.wide = (std::fabs(x) + c) * frame.reciprocal.high + frame.shift;
        element.raw = (folded_ ? std::fabs(x) + c : std::fabs(element.d)) + frame.delta;
        element.hat_absolute = (flushed ? eta_s + zeta : 0) * frame.reciprocal.high + eta_;
        element.finite = std::isfinite(x);
      }
      elements.push_back(element);
    });
    return elements;
  }

  // x - c without a rounding in double.
  [[nodiscard]] bool difference_is_exact(const Element& element) const {
    if (from_output_) return false;
    if (!row_.centred) return true;
    if (centre_.lo != 0) return false;
    const auto x = static_cast<double>(inputs_[Role::x][element.index]);
    return adds_exactly(x, -centre_.hi, element.d);
  }

  // Facts about a group's numbers as multiples of powers of two.
  struct Grids {
    bool differences = true;  // every d is exact and a float32, of a common grid
    bool safe = true;         // nothing under- or overflows
    bool products = true;     // every g is exact
    bool powers = true;       // γ is 0 or a power of two: a mean of dy is a float32 if that of g is
    double d = infinity, g = infinity, gd = infinity, gx = infinity, x = infinity;
    double largest_d = 0, largest_g = 0, largest_x = 0;
  };
  [[nodiscard]] Grids grids_of(const Frame& frame, const std::vector<Element>& elements) const {
    Grids grids;
    grids.differences = frame.delta == 0 && !from_output_;
    grids.safe = frame.r >= 0x1p-20 && frame.r <= 0x1p20;
    const auto note = [&](double value) {
      const double grid = grid_of(value);
      grids.safe = grids.safe && grid >= 0x1p-40 && std::fabs(value) <= 0x1p40;
      return grid;
    };
    for (const Element& element : elements) {
      grids.products = grids.products && element.exact_g;
      grids.differences = grids.differences && difference_is_exact(element);
      note(element.dy);
      grids.powers = grids.powers && (element.gamma == 0 || note(element.gamma) == std::fabs(element.gamma));
      const double g = note(element.g);
      const double d = note(element.d);
      grids.g = std::min(grids.g, g);
      grids.d = std::min(grids.d, d);
      grids.largest_d = std::max(grids.largest_d, std::fabs(element.d));
      grids.largest_g = std::max(grids.largest_g, std::fabs(element.g));
      grids.gd = std::min(grids.gd, g == infinity || d == infinity ? infinity : g * d);
      if (from_output_ || !folded_) continue;
      const auto value = static_cast<double>(inputs_[Role::x][element.index]);
      const double x = note(value);
      grids.x = std::min(grids.x, x);
      grids.largest_x = std::max(grids.largest_x, std::fabs(value));
      grids.gx = std::min(grids.gx, g == infinity || x == infinity ? infinity : g * x);
    }
    note(centre_.hi);
    grids.differences = grids.differences && (grids.d == infinity || grids.largest_d <= 0x1p24 * grids.d);
    return grids;
  }

  // (1+t) of a division by n in whatever type, and by N_v.
  [[nodiscard]] double any_division() const {
    const std::int64_t n = groups_.size();
    const double k = bounds::is_power_of_two(n) ? 0 : (claim_.divides_by_n ? 1 : 2) + (rounds_count(n) ? 1 : 0);
    return compound({gamma_factor(k, u_), narrowing});
  }
  [[nodiscard]] double any_division_by_divisor() const {
    if (!n_minus_1_) return any_division();
    return compound({gamma_factor(static_cast<double>(groups_.size()) * u_ > 1 ? 7 : 4, u_), narrowing});
  }

  // Roundings of g on its way into a product or a sum.
  [[nodiscard]] double gamma_roundings() const { return (problem_.gamma ? 1 : 0) + (plus_one_ ? 1 : 0); }

  // Roundings of x̂ in units of u: of the difference, and the product with r; or of (y-β)/γ, perhaps y times 1/γ.
  [[nodiscard]] double hat_roundings(bool exact_difference) const {
    if (from_output_) return (problem_.beta ? 1 : 0) + (problem_.gamma ? 2 : 0) + (plus_one_ ? 1 : 0);
    return (row_.centred && !exact_difference ? 1 : 0) + 1;
  }

  void set(Role role, std::size_t at, double tolerance, double scale, bool judged) {
    if (truth_.out[role].empty()) return;
    const Exact& exact = truth_.out[role][at];
    bounds_.scale[role][at] = std::max(0x1p-126, scale);  // also where scale is NaN
    if (!judged) return;
    if (std::isnan(exact.hi)) {
      bounds_.tolerance[role][at] = 0;  // the definition says NaN for finite inputs: NaN is demanded
    } else if (exact.finite() && std::fabs(exact.hi) + tolerance < 0x1.fffffep127) {
      bounds_.tolerance[role][at] = tolerance;
    }
  }

  // What rounds a result into float32 where it is not one already.
  [[nodiscard]] double last_rounding(const Exact& exact, bool exact_before, double rounding) const {
    return exact_before && exact.lo == 0 && is_float32(exact.hi) ? 0 : rounding;
  }

  void judge_dx(std::int64_t q, const Frame& frame, const std::vector<Element>& elements) {
    if (training_)
      judge_training(q, frame, elements);
    else
      judge_inference(frame, elements);
  }

  // dx = γ r dy: roundings of two products and of 1+w.
  void judge_inference(const Frame& frame, const std::vector<Element>& elements) {
    const double theta = gamma_factor(gamma_roundings() + 1, u_s);
    double largest = 0;
    for (const Element& element : elements)
      if (std::isfinite(element.g)) largest = std::max(largest, std::fabs(element.g));
    for (const Element& element : elements) {
      const bool finite = std::isfinite(element.dy) && std::isfinite(element.gamma);
      const Exact& exact = truth_.out[Role::dx][element.index];
      if (frame.nan) {
        set(Role::dx, element.index, 0, 0, finite && std::isnan(exact.hi));
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
                3 * eta_ * at_least_one(r) * at_least_one(w) * at_least_one(dy) + zeta * g + 2 * eta_out;
      error += last_rounding(exact, exactly, to_float32) * (std::fabs(exact.hi) + error);
      const bool fits = r * at_least_one(w) * at_least_one(dy) < top_ && w * dy < top_;
      set(Role::dx, element.index, error * slack_, frame.r * largest, finite && frame.r_known && fits);
    }
  }

  void judge_training(std::int64_t q, const Frame& frame, const std::vector<Element>& elements) {
    const auto group = static_cast<std::size_t>(q);
    bool finite = frame.mean_finite;
    for (const Element& element : elements)
      finite = finite && element.finite && std::isfinite(element.dy) && std::isfinite(element.gamma);
    if (!finite) return;
    // 0/0 where the convention says so; where it says 0, nothing but r (g - ḡ) is left.
    const bool zero_divisor = frame.divisor == 0;
    const bool stated_zero = zero_divisor && problem_.convention.single != SingleCount::nan;
    if (frame.nan || (zero_divisor && !stated_zero)) {
      for (const Element& element : elements)
        set(Role::dx, element.index, 0, 0,
            std::isnan(truth_.out[Role::dx][element.index].hi) && (frame.nan || !handed_));
      return;
    }
    if (!frame.judged || (stated_zero && elements[0].d != 0)) return;

    const double n = frame.n;
    const double divisor = stated_zero ? 1 : frame.divisor;
    const double s = stated_zero ? 0 : frame.s;
    const double s_high = stated_zero ? 0 : frame.s_high;
    const double r = frame.reciprocal.high;
    const Grids grids = grids_of(frame, elements);

    // Sums of what the function consists of; their own rounding in double is at most `doubt` of the moduli.
    double sum_g = 0, sum_gd = 0, sum_hat = 0, sum_d = 0, modulus_g = 0, modulus_gd = 0, modulus_gx = 0, modulus_d = 0;
    double reach = 0, wide = 0, g_absolute = 0, p_absolute = 0, sum_reach = 0, sum_wide = 0, hat_absolute = 0;
    double largest_g = 0, largest_hat = 0, raw_products = 0, hat_products = 0, most_g = 0, sum_raw = 0, largest_raw = 0,
           largest_wide = 0, largest_gamma = 0, largest_dy = 0;
    for (const Element& e : elements) {
      const double g = std::fabs(e.g);
      sum_g += e.g;
      sum_gd += e.g * e.d;
      sum_hat += e.hat;
      sum_d += e.d;
      modulus_g += g;
      modulus_gd += std::fabs(e.g * e.d);
      modulus_d += std::fabs(e.d);
      reach += g * e.reach;
      wide += g * e.wide;
      sum_reach += e.reach;
      sum_wide += e.wide;
      largest_wide = std::max(largest_wide, e.wide);
      hat_absolute += e.hat_absolute;
      g_absolute += e.g_absolute;
      const double most = folded_ ? e.wide : e.reach;
      p_absolute += g * e.hat_absolute + most * e.g_absolute +
                    4 * eta_ * at_least_one(std::fabs(e.gamma)) * at_least_one(std::fabs(e.dy)) * at_least_one(r) *
                        at_least_one(e.raw) * e.divided;
      largest_g = std::max(largest_g, g);
      largest_hat = std::max(largest_hat, std::fabs(e.hat));
      largest_raw = std::max(largest_raw, e.raw);
      sum_raw += e.raw;
      largest_gamma = std::max(largest_gamma, std::fabs(e.gamma));
      largest_dy = std::max(largest_dy, std::fabs(e.dy));
      // γ may come before or after any of these.
      const double either = std::max(g, std::fabs(e.dy));
      most_g += either;
      raw_products += either * e.raw;
      hat_products += either * e.reach;
      if (folded_ && !from_output_) modulus_gx += g * std::fabs(static_cast<double>(inputs_[Role::x][e.index]));
    }
    if (flushed) {
      g_absolute += n * eta_a * at_least_one(largest_gamma);
      p_absolute +=
          n * eta_a * at_least_one(largest_gamma) * at_least_one(r) * (folded_ ? 1 + std::fabs(centre_.hi) : 1);
    }
    const double doubt = (n + 8) * 0x1p-52;
    const double sum_g_most = row_.centred ? std::fabs(sum_g) + doubt * modulus_g : 0;
    const double to_hat = from_output_ ? 1 : frame.r;
    const double p = (std::fabs(sum_gd) + doubt * modulus_gd) * to_hat;

    const bool scales = frame.power && grids.safe;
    const Exactness exact = exactness(frame, grids, sum_g, sum_gd, sum_d, modulus_g, modulus_gd, modulus_gx, modulus_d);

    // S1.
    const double factor = sum_factor(claim_.group_sum, groups_.size(), claim_.accumulator);
    const double theta_g = gamma_factor(gamma_roundings() + narrow_, u_);
    const double e1 =
        !row_.centred || exact.s1 ? 0 : modulus_g * compound({factor, theta_g}) + (1 + factor) * g_absolute;

    // P. Folded: g x, the sum, m S1, the difference, r; from an output dy y - β dy, and γ and 1/γ beside.
    const double hat_k = hat_roundings(grids.differences);
    const double theta_hat = gamma_factor(hat_k, u_);
    double ep = 0;
    if (!exact.p) {
      const double theta_p = folded_ ? compound({theta_g, gamma_factor((from_output_ ? 7 : 5) + narrow_, u_)})
                                     : compound({theta_g, theta_hat, gamma_factor(1 + narrow_, u_)});
      ep = (folded_ ? wide : reach) * compound({factor, theta_p}) + (1 + factor) * p_absolute;
    }

    // Σx̂^ of the textbook's form.
    const bool with_mean = row_.centred && !from_output_ && (textbook_ || !handed_);
    double ed = 0;
    if (with_mean && !exact.mean_hat)
      ed = (folded_ ? sum_wide : sum_reach) * compound({factor, theta_hat, gamma_factor(1 + narrow_, u_)}) +
           (1 + factor) * hat_absolute;

    // Roundings on the paths to dx. The product form (r/n)(n g - S1 - x̂ P) has r/n, n g more on that of g; where the
    // kernel says that it divides, or n is a power of two, there is none.
    const double t = any_division();
    const double t_divisor = any_division_by_divisor();
    const bool product_form = !bounds::is_power_of_two(groups_.size()) && !claim_.divides_by_n;
    const double additions = exact.sum ? 0 : (row_.centred ? 2 : 1) + (folded_ ? 1 : 0);
    const double theta_sum = gamma_factor(additions, u_s);
    // g's own, r, and the additions.
    const bool exact_t1 = scales && grids.products && !product_form;
    const double theta_1 =
        exact_t1
            ? theta_sum
            : compound({gamma_factor(gamma_roundings() + 1 + additions, u_s), product_form ? compound({t, u_s}) : 0});
    // The quotient, r (or γ r), a sum more in the textbook's form, and the additions.
    const double theta_2 = exact.t2 ? theta_sum : compound({t, gamma_factor(additions + 2, u_)});
    // x̂'s own, the quotient, the products c x̂ and with r or s, the powers r² or r³, x̂ - mean(x̂), and the additions.
    const double theta_3 =
        exact.t3
            ? theta_sum
            : compound({t_divisor, gamma_factor(folded_ ? hat_k : 0, u_), theta_hat, gamma_factor(additions + 4, u_)});
    const double theta_4 = compound({t_divisor, t, gamma_factor(additions + 6, u_)});

    const double p_up = p * frame.up;
    const double computed_p = p_up + frame.shift * sum_g_most + ep;
    const double mean_hat = textbook_ ? (std::fabs(sum_hat) + doubt * sum_reach) / n : 0;
    double fourth = 0;
    if (with_mean) {
      const double up = mean_hat * frame.up;
      const double computed = s_high * computed_p / divisor * (up + frame.shift + ed / n);
      fourth = mean_hat * s * p * frame.e / divisor + s_high * computed_p / divisor * ed / n + computed * theta_4;
      if (textbook_)
        fourth += s_high *
                  (frame.shift * p_up + up * frame.shift * sum_g_most + frame.shift * frame.shift * sum_g_most +
                   (up + frame.shift) * ep) /
                  divisor;
      if (exact.mean_hat && sum_d == 0) fourth = 0;
    }
    const double powers = from_output_ ? 1 : at_least_one(r) * at_least_one(r);
    const double after_sums = 12 * eta_ * at_least_one(s_high) * powers * at_least_one(raw_products + computed_p);

    // No intermediate overflows, in whatever order the factors are multiplied.
    const double square = from_output_ ? 1 : r * r;
    const double big = at_least_one(largest_raw);
    const double response = std::max(s_high, r);  // a term that is 0 may be multiplied by 0
    const double products = at_least_one(raw_products);
    const double normalized = largest_hat * frame.up + frame.shift;
    const bool fits = most_g <= 0x1p127 && raw_products <= 0x1p127 && hat_products <= 0x1p127 && n * largest_g < top_ &&
                      at_least_one(response) * at_least_one(square) * at_least_one(r) * at_least_one(1 / n) < top_ &&
                      response * square * products * big < top_ && big * products < top_ &&
                      largest_gamma * big < top_ && largest_dy * at_least_one(largest_gamma) * big < top_ &&
                      r * at_least_one(largest_gamma) < top_ && r * (largest_g + largest_dy + modulus_g) < top_ &&
                      normalized * at_least_one(std::max(hat_products, computed_p)) < top_ &&
                      (!folded_ || largest_wide * products < top_) &&
                      (!with_mean || (2 * response * square * products * at_least_one(sum_raw) < top_));
    bounds_.in_range[group] = bounds_.in_range[group] && most_g <= 0x1p127 && raw_products <= 0x1p127;

    const double mean_g = row_.centred ? sum_g / n : 0;
    const double scale = frame.r * (largest_g + largest_hat * p / n);
    for (const Element& e : elements) {
      const double g = std::fabs(e.g);
      const double base = std::fabs(e.g - mean_g) + 0x1p-51 * g + (row_.centred ? doubt * modulus_g / n : 0);
      const double w = std::fabs(e.gamma);
      const double dy = std::fabs(e.dy);
      double error = frame.r_error * base + r * (e1 / n + g * theta_1 + (sum_g_most + e1) / n * theta_2);
      if (!exact_t1)
        error += r * e.g_absolute * (1 + theta_1) + 4 * eta_ * at_least_one(r) * at_least_one(w) * at_least_one(dy) +
                 (product_form ? eta_ * n * g : 0) + 3 * eta_ * at_least_one(r) + zeta * g;
      if (!exact.t2 && row_.centred) error += 4 * eta_ * at_least_one(r) * at_least_one(most_g + e1);
      if (s > 0 || s_high > 0) {
        const double hat = std::fabs(e.hat);
        const double up = hat * frame.up;
        const double tau = frame.shift + (exact.t3 ? 0 : e.hat_absolute);
        error += hat * s * p * frame.e / divisor +
                 s_high *
                     (tau * p_up + up * frame.shift * sum_g_most + tau * frame.shift * sum_g_most + (up + tau) * ep) /
                     divisor +
                 s_high * ((folded_ ? e.wide : up) + tau) * computed_p / divisor * theta_3 + fourth;
        if (!exact.t3 || fourth > 0)
          error += after_sums * at_least_one(e.raw) * (with_mean ? at_least_one(modulus_d) : 1);
      }
      const Exact& value = truth_.out[Role::dx][e.index];
      if (!exact.sum) error += 3 * eta_out + (flushed ? 3 * eta_s * at_least_one(r) : 0);
      error += last_rounding(value, exact.sum, to_float32) * (std::fabs(value.hi) + error);
      set(Role::dx, e.index, error * slack_, scale, bounds_.in_range[group] && fits);
    }
  }

  // Which sums, quotients and terms have no rounding in whatever order they are computed.
  struct Exactness {
    bool s1 = false;
    bool p = false;
    bool mean_hat = false;
    bool t2 = false;
    bool t3 = false;
    bool sum = false;
  };
  [[nodiscard]] Exactness exactness(const Frame& frame, const Grids& grids, double sum_g, double sum_gd, double sum_d,
                                    double modulus_g, double modulus_gd, double modulus_gx, double modulus_d) const {
    Exactness exact;
    if (!grids.safe || from_output_) return exact;
    const double c = std::fabs(centre_.hi);
    const double c_grid = grid_of(centre_.hi);
    const auto below = [&](double modulus, double grid) { return grid == infinity || modulus < limit_ * grid; };
    const std::int64_t count = groups_.size();
    const auto divides = [&](double value) {
      return value == 0 || bounds::is_power_of_two(count) ||
             (divides_exactly(count) && grids.powers && quotient_is_float32(value, frame.n));
    };
    exact.s1 = grids.products && below(modulus_g, grids.g);
    const bool scales = frame.power;  // otherwise every x̂ is rounded
    exact.mean_hat = scales && grids.differences && below(modulus_d, grids.d);
    exact.p = scales && exact.s1 && grids.differences && below(modulus_gd, grids.gd);
    if (folded_ && exact.p)
      exact.p = below(modulus_gx + c * modulus_g, std::min(grids.gx, c == 0 ? infinity : c_grid * grids.g));
    exact.t2 = scales && (!row_.centred || (exact.s1 && divides(sum_g)));
    // T3: products of d (folded: of x and c) with Σgd and with its mean.
    const double mean_gd = sum_gd / frame.n;
    const double outer = folded_ ? std::max(grids.largest_x, c) : grids.largest_d;
    const double outer_grid = folded_ ? std::min(grids.x, c_grid) : grids.d;
    const bool response_exact = frame.s == 0 || (problem_.convention.eps != EpsPlacement::outside && frame.e == 0);
    exact.t3 = exact.p && (sum_gd == 0 || frame.s == 0 ||
                           (response_exact && frame.divisor == frame.n && divides(sum_gd) &&
                            product_fits(outer, outer_grid, std::fabs(sum_gd), grid_of(sum_gd), limit_) &&
                            product_fits(outer, outer_grid, std::fabs(mean_gd), grid_of(mean_gd), limit_)));
    const bool no_mean = !row_.centred || (handed_ && !textbook_) || (exact.mean_hat && sum_d == 0);
    if (!(exact.t2 && exact.t3 && exact.s1 && no_mean && grids.products)) return exact;
    if (!bounds::is_power_of_two(count) && !claim_.divides_by_n) return exact;
    const double r = frame.r;
    const double mean_g = row_.centred ? sum_g / frame.n : 0;
    const double pull = frame.s == 0 ? 0 : mean_gd * r * r * r;
    const double finest =
        std::min({grids.g * r, grid_of(mean_g * r), pull == 0 ? infinity : grid_of(pull) * outer_grid});
    const double most = r * (grids.largest_g + std::fabs(mean_g)) + std::fabs(pull) * outer * (folded_ ? 2 : 1);
    exact.sum = finest == infinity || most <= limit_ * finest;
    return exact;
  }

  // Adds a group's terms to the channels' sums.
  void take_in(std::int64_t q, const Frame& frame, const std::vector<Element>& elements) {
    const bool range = bounds_.in_range[static_cast<std::size_t>(q)];
    const double r = from_output_ ? 1 : frame.reciprocal.high;
    const bool nan = frame.nan && !from_output_;  // of every x̂: so is the truth then
    bool differences = frame.delta == 0 && frame.shift == 0 && !from_output_;
    double grid = infinity, largest = 0;
    for (const Element& e : elements) {
      differences = differences && difference_is_exact(e);
      grid = std::min(grid, grid_of(e.d));
      largest = std::max(largest, std::fabs(e.d));
    }
    differences = differences && (grid == infinity || largest <= 0x1p24 * grid);
    // x̂'s own, r (counted with it), the product, and narrower sums; folded: x dy, m Σdy, their difference, r.
    const double theta = folded_ ? gamma_factor((from_output_ ? 7 : 4) + 2 * narrow_, u_)
                                 : gamma_factor(hat_roundings(differences) + 1 + 2 * narrow_, u_);
    const double relative = frame.r > 0 && !from_output_ ? frame.r_error / frame.r : 0;
    const bool statistics_known = from_output_ || (frame.r_known && frame.mean_finite && !nan);
    const bool zero = training_ && frame.divisor == 0;
    for (const Element& e : elements) {
      Channel& channel = channels_[e.channel];
      const double dy = std::fabs(e.dy);
      channel.upstream_finite = channel.upstream_finite && std::isfinite(e.dy);
      channel.upstream += dy;
      channel.upstream_error += zeta + (flushed ? eta_a : 0);
      channel.upstream_grid = std::min(channel.upstream_grid, grid_of(e.dy));
      channel.finite = channel.finite && frame.mean_finite && e.finite && std::isfinite(e.dy);
      channel.judged = channel.judged && range && (statistics_known || nan);
      // A mean that is handed beside the one value there is: what 0/0 or a stated 0 makes of it is open.
      if (zero && e.d != 0) channel.judged = false;
      if (!channel.finite || !channel.judged || nan) continue;
      const double most = folded_ ? e.wide : e.reach;
      channel.terms += dy * std::fabs(e.hat);
      channel.computed += dy * most * (1 + theta);
      const double absolute = dy * e.hat_absolute + most * zeta +
                              4 * eta_ * at_least_one(dy) * at_least_one(r) * at_least_one(e.raw) * e.divided +
                              (flushed ? eta_a * at_least_one(r) * (folded_ ? 1 + std::fabs(centre_.hi) : 1) : 0);
      channel.error += dy * most * theta + absolute;
      sum_of_products_[e.channel] += e.dy * e.hat;
      sum_of_dy_[e.channel] += e.dy;
      const double doubt = (frame.n + 8) * 0x1p-52;
      channel.error += doubt * dy * (std::fabs(e.hat) * relative + frame.shift);
      // Exact terms are multiples of this grid.
      const bool safe = frame.power && differences && r > 0x1p-20 && r < 0x1p20 && grid_of(e.dy) > 0x1p-40 &&
                        dy < 0x1p40 && grid_of(e.d) > 0x1p-40 && e.raw < 0x1p40;
      channel.exact = channel.exact && safe;
      if (folded_ && !from_output_) {
        const double x_grid = std::min(grid_of(static_cast<double>(inputs_[Role::x][e.index])), grid_of(centre_.hi));
        if (x_grid < infinity && e.dy != 0)
          channel.term_grid = std::min(channel.term_grid, x_grid * grid_of(e.dy) * frame.r);
      } else if (e.d != 0 && e.dy != 0) {
        channel.term_grid = std::min(channel.term_grid, grid_of(e.d) * grid_of(e.dy) * frame.r);
      }
      channel.products += dy * (e.raw + most);
      if (channel.products >= top_ || most >= top_ || dy * r >= top_ || e.raw >= top_) channel.judged = false;
    }
    if (nan) return;
    // What r^ and the mean's error do to all terms of a channel together.
    for (const Element& e : elements) {
      Channel& channel = channels_[e.channel];
      channel.error +=
          std::fabs(sum_of_products_[e.channel]) * relative + frame.shift * std::fabs(sum_of_dy_[e.channel]);
      sum_of_products_[e.channel] = sum_of_dy_[e.channel] = 0;
    }
  }

  void judge_parameters() {
    // A channel's terms: `share` in each of `parts` groups.
    double terms = 1, parts = 1;
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (row_.affine.has(a)) continue;
      terms *= static_cast<double>(problem_.shape[a]);
      if (!row_.reduced.has(a)) parts *= static_cast<double>(problem_.shape[a]);
    }
    const bool accumulates = problem_.convention.gradients == Gradients::accumulate;
    const auto share = static_cast<std::int64_t>(parts > 0 ? terms / parts : 0);
    const auto all_parts = static_cast<std::int64_t>(parts) + (accumulates ? 1 : 0);
    const double all = terms + (accumulates ? 1 : 0);
    const auto within = static_cast<double>(depth(claim_.group_sum, share));
    // The old value may be added last.
    double path = within + static_cast<double>(accumulates ? std::max(depth(claim_.across_groups, all_parts),
                                                                      depth(claim_.across_groups, all_parts - 1) + 1)
                                                           : depth(claim_.across_groups, all_parts));
    if (claim_.across_groups.order == SumOrder::sequential && all_parts > 1)
      path = std::min(all - 1, static_cast<double>(all_parts) * (1 + within));
    const double factor = all <= 1 ? 0 : std::min((all - 1) * u_a, gamma_factor(path, u_a));
    const bool wider = claim_.accumulator == ScalarType::float64 || claim_.statistics == ScalarType::float64;
    const double into_float32 = wider ? (accumulates ? gamma_factor(2, unit_float32) : unit_float32) : 0;
    slack_ = slack(static_cast<std::int64_t>(all));
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      const Channel& channel = channels_[c];
      const auto judge = [&](Role role, bool finite, double scale, double modulus, double error, bool exact,
                             double grid) {
        if (truth_.out[role].empty()) return;
        const double signed_old = accumulates ? static_cast<double>(inputs_[role][c]) : 0;
        const double old = std::fabs(signed_old);
        const Exact& value = truth_.out[role][c];
        const double finest = std::min(grid, grid_of(signed_old));
        const bool exactly = exact && (finest == infinity || (modulus + old < limit_ * finest && finest >= 0x1p-100));
        double total = 0;
        if (!exactly) {
          const double read = accumulates ? zeta + (flushed ? 2 * eta_a : 0) : 0;
          total = error * (1 + factor) + (modulus + old) * factor + read + 3 * eta_out + eta_a + eta_s;
        }
        // The sum may become a float32 before the old value is added.
        const bool sum_is_float32 = !accumulates || finest == infinity || modulus + old < 0x1p24 * finest;
        if (value.finite())
          total += last_rounding(value, exactly && sum_is_float32, into_float32) * (std::fabs(value.hi) + old + total);
        set(role, c, total * slack_, scale + old, finite && std::isfinite(old) && modulus + old + total < 0x1p127);
      };
      judge(Role::dgamma, channel.finite && channel.judged, channel.terms, channel.computed, channel.error,
            channel.exact || channel.computed == 0, channel.term_grid);
      judge(Role::dbeta, channel.upstream_finite, channel.upstream, channel.upstream, channel.upstream_error, true,
            channel.upstream_grid);
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Truth& truth_;
  const Claim& claim_;
  const VariantRow& row_;
  Groups groups_;
  bool training_;
  bool from_output_;
  bool handed_;    // statistics are exact inputs of the function
  bool textbook_;  // and mean(x̂) is part of it
  bool folded_;
  bool n_minus_1_;
  bool plus_one_;
  double u_;       // U
  double eta_;     // the larger of both types'
  double limit_;   // integers below this are exact in both types
  double top_;     // nothing below this overflows
  double narrow_;  // roundings of what goes into a narrower accumulator
  double slack_ = 1;
  Exact centre_;
  std::vector<Channel> channels_;
  std::vector<double> sum_of_products_;  // of the group at hand, by channel
  std::vector<double> sum_of_dy_;
  Bounds bounds_;
};

}  // namespace

Bounds backward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, SavedUse use,
                       const Claim& claim) {
  return Backward(problem, inputs, truth, use, claim).run();
}

}  // namespace normgate
