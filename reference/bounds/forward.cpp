// Bounds of the forward phases. Each step below states what is proved; together they bound |computed - true| for every
// kernel that computes as it claims, in IEEE round-to-nearest, on this very input. No term is neglected.
//
// Notation, per group: n elements x, mean μ, d = x - μ, v the normalizing variance (divisor N_v, n or n-1), r = 1/D.
// u_a, u_s: unit roundoff of the claimed accumulator and statistics types; u = 2^-24. A hat is the computed value.
// G: sum_factor, |Σ^ - Σ| <= G Σ|terms|. η: underflow of one operation; ζ: what reading a subnormal input as 0 costs.
//
//  mean       S^ = Σx + e, |e| <= G Σ|x|. Dividing by n is k roundings: 0 if n is a power of two, 1 if the kernel
//  claims
//             to divide, else 2 (1/n and the product; one more where n itself is rounded), and one more into a narrower
//             statistics type: factor 1+t, t = (1+u_a)^k (1+u_s) - 1.
//             |m^ - μ| <= (G Σ|x| / n) (1+t) + |μ| t + ζ + 2η =: δ.
//  exactness  If all x are multiples of a grid g and Σ|x| <= 2^p g, every partial sum in any order is exact: G = 0. If
//             then Σx/n is representable and the division is exact (S = 0, n a power of two, or divides by n): δ = 0.
//             If further μ is a multiple of g and max|d| <= 2^24 g, differences are exact, and if Σd² <= 2^p g² the sum
//             of squares is. This is where a wrong divisor has nowhere to hide.
//  two-pass   d^ = (d - δ_m)(1+ε), |ε| <= u_d; Σ(d-δ_m)² = Σd² + n δ_m², since Σd = 0. All terms are >= 0, so
//             V^ = (Σd² + nδ_m²)(1+Θ), |Θ| <= T = (1+u_d)² (1+u_q) (1+G) (1+t_v) - 1, plus α for underflow:
//             v (1-T) - α <= v^ <= (v + (n/N_v) δ²)(1+T) + α.
//  one-pass   v^ = fl(fl(Σx²/n) - fl(m^²)): |v^ - v| <= (Σx²/n)((1+u_q)(1+G)(1+t)-1) + (2|μ|δ+δ²)(1+u_s) + μ²u_s, then
//  the
//             rounding of the difference, and three for n/(n-1).
//  Welford    derived at welford_mean() and welford_variance().
//  root       w = v + eps has one rounding, the root and the quotient one each (or rsqrt_ulp): r^ lies between the
//  values
//             at both ends of v^'s interval, since D is monotonic in v. If the lower end is <= 0, nothing is judged.
//  centred    P = γ d r: |P^ - P| <= |γ| (|d| |r^-r| + δ r^ + (|d|+δ) r^ θ), θ from one rounding of the difference, one
//  or
//             two products and 1+w; then one rounding of P + β, one into float32 if the statistics type is wider.
//  folded     a = γ r, b = β - m a, y = x a + b: u_s (|x a| + |μ a| + |b|) in place of the rounding of the difference.
//
//  levels     e = γ d Δr - γ δ_m r^ + (element roundings ρ). With g = γ d r: Σ e g / Σ g² is at most
//             |Δr|/r + δ r^ |Σγg| / Σg² + Σ|ρ||g| / Σg², and the mean of e at most (|Σγd| |Δr| + δ r^ |Σγ| + Σ|ρ|) / n.
#include "reference/bounds/forward.hpp"

#include <array>
#include <bit>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/running.hpp"

namespace normgate {
namespace {

struct Interval {
  double low = 0;
  double high = 0;
};

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// The largest power of two that x is a multiple of; infinite for 0.
double grid_of(float x) {
  if (x == 0.0F) return infinity;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(x), &exponent);
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(fraction, 24));
  return std::ldexp(1.0, exponent - 24 + std::countr_zero(mantissa));
}

bool is_float32(double value) { return static_cast<double>(static_cast<float>(value)) == value; }

// Whether the double quotient is exact: fma gives the exact residual.
bool quotient_is_float32(double numerator, double n) {
  const double quotient = numerator / n;
  return std::fma(quotient, n, -numerator) == 0 && is_float32(quotient);
}

// Everything the bounds need of one group, in double from exact values.
struct Group {
  std::int64_t n = 0;
  bool finite = true;
  double sum = 0;         // Σx, exact wherever grid arithmetic is (see `grid`)
  double modulus = 0;     // Σ|x|
  double squares = 0;     // Σx²
  double largest = 0;     // max |x|
  double deviations = 0;  // Σd²
  double largest_deviation = 0;
  double grid = infinity;
  double mean = 0;
  double variance = 0;
  double rstd = 0;
};

// What is known of the computed statistics.
struct Statistics {
  double mean_error = 0;           // δ
  double difference_roundoff = 0;  // u_d
  Interval variance;
  double variance_error = 0;  // max |v^ - v|
  Interval rstd;
  double rstd_error = 0;
};

class Forward {
 public:
  Forward(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim)
      : problem_(problem),
        inputs_(inputs),
        truth_(truth),
        claim_(claim),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        u_a_(unit_roundoff(claim.accumulator)),
        u_s_(unit_roundoff(claim.statistics)),
        narrowing_(claim.accumulator == ScalarType::float64 && claim.statistics == ScalarType::float32 ? u_s_ : 0),
        to_float32_(claim.statistics == ScalarType::float64 ? unit_float32 : 0),
        eta_a_(underflow_unit(claim.accumulator, claim.subnormals)),
        eta_s_(underflow_unit(claim.statistics, claim.subnormals)),
        eta_out_(underflow_unit(ScalarType::float32, claim.subnormals)),
        zeta_(claim.subnormals == Subnormals::flushed ? 0x1p-126 : 0) {
    const bool rounded =
        problem.profile == Profile::parameter_rounding && problem.convention.scalars == Scalars::float32;
    parameter_roundoff_ = rounded ? unit_float32 : 0;
    eps_ = {problem.eps * (1 - parameter_roundoff_), problem.eps * (1 + parameter_roundoff_)};
  }

  Bounds run() {
    allocate();
    const bool training = problem_.phase == Phase::forward_training;
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      const Group group = gather(q);
      slack_ = 1 + static_cast<double>(group.n + 400) * 0x1p-52;
      const bool range = in_range(group);
      bounds_.in_range[static_cast<std::size_t>(q)] = range;
      const Statistics statistics = training ? trained(group) : given(group);
      judge_statistics(q, group, statistics, range);
      judge_y(q, group, statistics, range);
      if (problem_.running) take_in(q, group, statistics, range);
    }
    if (problem_.running) judge_state();
    return std::move(bounds_);
  }

 private:
  void allocate() {
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      bounds_.tolerance[role].assign(truth_.out[role].size(), infinity);
      bounds_.scale[role].assign(truth_.out[role].size(), 0x1p-126);
    }
    const auto count = static_cast<std::size_t>(groups_.count());
    bounds_.levels.assign(count, {infinity, infinity});
    bounds_.in_range.assign(count, true);
    if (problem_.running) batch_.resize(truth_.out[Role::running_var].size());
  }

  [[nodiscard]] double x_at(std::int64_t i) const {
    return static_cast<double>(inputs_[Role::x][static_cast<std::size_t>(i)]);
  }

  Group gather(std::int64_t q) const {
    Group group;
    const GroupTruth& exact = truth_.groups[static_cast<std::size_t>(q)];
    group.n = groups_.size();
    group.mean = exact.mean.hi;
    group.variance = exact.variance.hi;
    group.rstd = exact.rstd.hi;
    groups_.for_each(q, [&](std::int64_t i, const Shape&) {
      const double x = x_at(i);
      if (!std::isfinite(x)) group.finite = false;
      const double d = deviation(x, exact);
      group.sum += x;
      group.modulus += std::fabs(x);
      group.squares += x * x;
      group.largest = std::max(group.largest, std::fabs(x));
      group.deviations += d * d;
      group.largest_deviation = std::max(group.largest_deviation, std::fabs(d));
      group.grid = std::min(group.grid, grid_of(static_cast<float>(x)));
    });
    return group;
  }

  // x - μ; its error, 2^-52 |d| + 2^-105 |μ|, is inside the slack and the 2^-100 |μ| that mean_error carries.
  [[nodiscard]] double deviation(double x, const GroupTruth& exact) const {
    return row_.centred ? (x - exact.mean.hi) - exact.mean.lo : x;
  }

  // "Squares fit": the sums of moduli and of squares keep a factor of two to float32's largest number.
  // Where statistics are given no sum is taken; what can overflow then is judged per element.
  bool in_range(const Group& group) const {
    if (problem_.phase == Phase::forward_inference) return true;
    return group.modulus <= 0x1p127 && group.deviations <= 0x1p127 &&
           (claim_.variance != VarianceAlgorithm::one_pass || group.squares <= 0x1p127);
  }

  // (1+t) of a division by n; see "mean" above.
  [[nodiscard]] double division(std::int64_t n) const {
    double k = claim_.divides_by_n ? 1 : 2;
    if (is_power_of_two(n)) k = 0;
    if (static_cast<double>(n) > exact_integers(claim_.accumulator)) k += 1;
    return compound({gamma_factor(k, u_a_), narrowing_});
  }

  [[nodiscard]] bool sums_exactly(const Group& group, double modulus, double grid) const {
    return claim_.variance != VarianceAlgorithm::welford && group.finite && grid >= 0x1p-126 &&
           (grid == infinity || modulus <= exact_integers(claim_.accumulator) * grid);
  }

  // Error of Welford's running mean, |e_n|: m_k = m_{k-1} + fl(fl(x_k - m_{k-1}) / k) (or times a rounded 1/k) gives k
  // |e_k| <= (k-1) |e_{k-1}|
  // + 3.2 u (|x_k| + |m^_{k-1}|) + k u |m^_k|, and |m^_k| <= M + |e_k| with M = max|x|; summed over k and divided by n:
  // |e_n| <= u (M + e) ((n+1)/2 + 6.5). With e the largest, e <= u C M / (1 - u C). Lanes hold ceil(n/lanes) elements
  // and are merged in a tree of L levels, m = m_a + (m_b - m_a) n_b/n, each adding at most 10 u (M + e).
  [[nodiscard]] double welford_mean(const Group& group) const {
    const double per_lane = lane_length(group.n);
    const double c = u_a_ * ((per_lane + 1) / 2 + 6.5 + 10 * merge_levels());
    if (c >= 0.5) return infinity;
    return c * group.largest / (1 - c) * (1 + narrowing_) + narrowing_ * std::fabs(group.mean) +
           static_cast<double>(group.n + 2) * eta_a_ + zeta_;
  }

  // Σd² = Σ_k a_k b_k, a_k = x_k - μ_{k-1}, b_k = x_k - μ_k = a_k (k-1)/k >= 0 in product. With mean errors at most e,
  // |a^b^ - ab| <= (2 e |a| + e²)(1 + 4u) + 4u ab; Σ_{k>=2} |a_k| <= sqrt(n Σ a_k²) <= sqrt(2 n Σd²), as a_k² <= 2 a_k
  // b_k. A merge adds (m_b - m_a)² n_a n_b / n: error (2 e|Δ| 2 + 4 e²) n_a n_b / n with Σ n_a n_b / n <= n/4 per
  // level, by Cauchy-Schwarz <= 4 e sqrt(Σd²) sqrt(n/4) per level + e² n. All terms are >= 0 and added with depth
  // n_lane + levels.
  [[nodiscard]] double welford_sum_error(const Group& group, double mean_error) const {
    const double levels = merge_levels();
    const double n = static_cast<double>(group.n);
    const double root = std::sqrt(n * group.deviations);
    const double direct = 2 * mean_error * std::sqrt(2.0) * root + n * mean_error * mean_error +
                          levels * (2 * mean_error * root + n * mean_error * mean_error);
    const double relative = gamma_factor(lane_length(group.n) + 8 * levels + 6, u_a_);
    return direct * (1 + relative) * (1 + 8 * u_a_) + group.deviations * relative +
           n * 2 * eta_a_ * (1 + group.largest_deviation);
  }
  [[nodiscard]] double lane_length(std::int64_t n) const {
    return std::ceil(static_cast<double>(n) / static_cast<double>(claim_.group_sum.lanes));
  }
  [[nodiscard]] double merge_levels() const {
    return std::ceil(std::log2(static_cast<double>(claim_.group_sum.lanes)));
  }

  Statistics trained(const Group& group) const {
    Statistics s;
    if (!group.finite || group.n == 0) return unknown();
    const double n = static_cast<double>(group.n);
    const bool exact_sum = sums_exactly(group, group.modulus, group.grid);
    if (row_.centred) {
      s.mean_error = mean_error(group, exact_sum);
      s.difference_roundoff = u_s_;
    }
    const bool mean_on_grid = !row_.centred || group.grid == infinity || std::fmod(group.mean, group.grid) == 0;
    const bool exact_differences = s.mean_error == 0 && mean_on_grid && exact_sum &&
                                   (group.grid == infinity || group.largest_deviation <= 0x1p24 * group.grid);
    if (exact_differences) s.difference_roundoff = 0;
    const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    const std::int64_t divisor = n_minus_1 ? group.n - 1 : group.n;
    if (divisor == 0) {
      // 0/0 where the convention says NaN (nothing to bound: NaN is demanded), a stated 0 elsewhere.
      s.variance = {0, 0};
      finish(group, s);
      return s;
    }
    const double inflation = n / static_cast<double>(divisor);
    if (claim_.variance == VarianceAlgorithm::one_pass && row_.centred) {
      one_pass(group, inflation, s);
    } else if (claim_.variance == VarianceAlgorithm::welford && row_.centred) {
      const double t = division(divisor);
      const double error = welford_sum_error(group, s.mean_error) / static_cast<double>(divisor) * (1 + t) +
                           group.variance * t + 2 * eta_a_;
      s.variance = {group.variance - error, group.variance + error};
    } else {
      two_pass(group, divisor, inflation, exact_differences, s);
    }
    finish(group, s);
    return s;
  }

  [[nodiscard]] double mean_error(const Group& group, bool exact_sum) const {
    if (claim_.variance == VarianceAlgorithm::welford) return welford_mean(group) * slack_;
    const double n = static_cast<double>(group.n);
    const bool exact_division = group.sum == 0 || is_power_of_two(group.n) || claim_.divides_by_n;
    if (exact_sum && exact_division && quotient_is_float32(group.sum, n) && std::fabs(group.mean) >= 0x1p-126) return 0;
    if (exact_sum && group.sum == 0) return 0;
    const double factor = exact_sum ? 0 : sum_factor(claim_.group_sum, group.n, claim_.accumulator);
    const double t = division(group.n);
    return (factor * group.modulus / n * (1 + t) + std::fabs(group.mean) * (t + 0x1p-100) + zeta_ + 2 * eta_a_ +
            eta_s_ + (claim_.subnormals == Subnormals::flushed ? eta_a_ : 0)) *
           slack_;
  }

  void two_pass(const Group& group, std::int64_t divisor, double inflation, bool exact_differences,
                Statistics& s) const {
    const double square_grid = group.grid * group.grid;
    const bool exact_squares = exact_differences && group.largest_deviation <= 0x1p24 * group.grid &&
                               sums_exactly(group, group.deviations, group.grid == infinity ? infinity : square_grid);
    const double u_q = exact_squares ? 0 : std::max(u_a_, claim_.accumulator == ScalarType::float32 ? u_s_ : 0.0);
    const double factor = exact_squares ? 0 : sum_factor(claim_.group_sum, group.n, claim_.accumulator);
    double t = division(divisor);
    const bool exact_division = claim_.divides_by_n || is_power_of_two(divisor);
    if (exact_squares && exact_division && quotient_is_float32(group.deviations, static_cast<double>(divisor))) t = 0;
    const double u_d = s.difference_roundoff;
    const double relative = compound({u_d, u_d, u_q, factor, t});
    const double moved_by = inflation * s.mean_error * s.mean_error;
    const double moved = group.variance + moved_by;
    // Underflow: of each square, and, where subnormals are flushed, of each difference (2η|d| + η² in its square).
    double underflow = exact_squares ? 0 : inflation * eta_a_ + 2 * eta_a_ + eta_s_;
    if (claim_.subnormals == Subnormals::flushed) {
      const double lost = eta_s_ + zeta_;
      underflow += 2 * lost * std::sqrt(inflation * moved) + inflation * lost * lost;
      if (factor > 0) underflow += inflation * eta_a_;  // partial sums below the smallest normal number
    }
    // Differences of the interval's ends are taken in double; 2^-50 keeps its rounding outside.
    const double doubt = relative == 0 ? 0 : group.variance * 0x1p-50;
    const double down = (group.variance * relative + underflow) * slack_ + doubt;
    s.variance.low = std::max(0.0, group.variance - down);  // a sum of squares is never negative
    s.variance.high = group.variance + (moved_by + moved * relative + underflow) * slack_ + doubt;
    if (exact_squares && relative == 0) s.variance = {group.variance, group.variance};
  }

  void one_pass(const Group& group, double inflation, Statistics& s) const {
    const double n = static_cast<double>(group.n);
    const double mean_square = group.squares / n;
    const double factor = sum_factor(claim_.group_sum, group.n, claim_.accumulator);
    const double t = division(group.n);
    const double u = std::max(u_a_, u_s_);
    const double mu = std::fabs(group.mean);
    const double error = mean_square * compound({u, factor, t}) +
                         (2 * mu * s.mean_error + s.mean_error * s.mean_error) * (1 + u) + u * mu * mu + 4 * eta_a_ +
                         eta_a_ * 2;
    const double population = group.variance / inflation;
    const double after = error + u * (population + error);
    const double total = (after * inflation * (1 + 4 * u) + 4 * u * group.variance + 2 * eta_a_) * slack_;
    s.variance = {group.variance - total, group.variance + total};
  }

  // Statistics that are handed to the kernel are exact, but for a division by an accumulated weight.
  Statistics given(const Group& group) const {
    Statistics s;
    s.difference_roundoff = row_.centred ? u_s_ : 0;
    if (problem_.given == Given::saved && problem_.convention.saved == SavedStatistic::rstd) {
      s.variance = {0, infinity};
      s.rstd = {group.rstd, group.rstd};
      return s;
    }
    double t = 0;
    if (problem_.given == Given::running && problem_.convention.momentum == MomentumForm::accumulated_weight) {
      t = gamma_factor(2, unit_float32);
      s.mean_error = (std::fabs(group.mean) * t + 2 * eta_s_) * slack_;
    }
    const double error = group.variance == 0 || t == 0 ? 0 : (std::fabs(group.variance) * t + 2 * eta_s_) * slack_;
    s.variance = {group.variance - error, group.variance + error};
    finish(group, s);
    return s;
  }

  static Statistics unknown() {
    Statistics s;
    s.mean_error = infinity;
    s.variance = {-infinity, infinity};
    s.variance_error = infinity;
    s.rstd = {0, infinity};
    s.rstd_error = infinity;
    return s;
  }

  // 1/D at one end of the variance's interval, moved outward by its own roundings. `down` is towards smaller 1/D.
  [[nodiscard]] double reciprocal(double v, double eps, bool down) const {
    const double sign = down ? 1 : -1;
    const bool approximate = claim_.rsqrt_ulp > 0;
    const double u = u_s_;
    const double root = approximate ? 2 * u * claim_.rsqrt_ulp + u : u;
    double d = 0;
    double quotient = u;
    switch (problem_.convention.eps) {
      case EpsPlacement::inside:
        d = std::sqrt((v + eps) * (1 + sign * (problem_.eps > 0 ? u : 0))) * (1 + sign * root);
        break;
      case EpsPlacement::outside:
        d = (std::sqrt(v) * (1 + sign * root) + eps) * (1 + sign * u);
        break;
      case EpsPlacement::floor:
        d = std::sqrt(std::max(v, eps)) * (1 + sign * root);
        break;
    }
    if (down) return 1 / d * (1 - quotient) * (1 - 0x1p-48);
    return d > 0 ? 1 / d * (1 + quotient) * (1 + 0x1p-48) : infinity;
  }

  void finish(const Group& group, Statistics& s) const {
    const bool outside = problem_.convention.eps == EpsPlacement::outside;
    s.variance_error =
        std::isnan(group.variance) ? 0 : std::max(s.variance.high - group.variance, group.variance - s.variance.low);
    // A kernel may compute a negative variance; where that can make D undefined nothing is judged.
    const double low = problem_.convention.eps == EpsPlacement::inside ? s.variance.low : std::max(s.variance.low, 0.0);
    const bool defined = problem_.convention.eps == EpsPlacement::inside ? low + eps_.low > 0
                         : outside ? s.variance.low >= 0 && std::sqrt(low) + eps_.low > 0
                                   : std::max(low, eps_.low) > 0;
    if (!defined || !std::isfinite(group.rstd)) {
      s.rstd = {0, infinity};
      s.rstd_error = infinity;
      return;
    }
    s.rstd = {reciprocal(s.variance.high, eps_.high, true), reciprocal(low, eps_.low, false)};
    s.rstd_error = std::max(s.rstd.high - group.rstd, group.rstd - s.rstd.low);
  }

  void set(Role role, std::size_t at, double tolerance, double scale, bool judged) {
    if (truth_.out[role].empty()) return;
    const Exact& exact = truth_.out[role][at];
    bounds_.scale[role][at] = std::max(scale, 0x1p-126);
    if (!judged) return;
    if (std::isnan(exact.hi)) {
      bounds_.tolerance[role][at] = 0;  // the definition says NaN for finite inputs: NaN is demanded
    } else if (exact.finite() && std::fabs(exact.hi) + tolerance < 0x1.fffffep127) {
      bounds_.tolerance[role][at] = tolerance;
    }
  }

  void judge_statistics(std::int64_t q, const Group& group, const Statistics& s, bool range) {
    if (problem_.phase != Phase::forward_training || group.n == 0 || !group.finite) return;
    const auto at = static_cast<std::size_t>(q);
    const double n = static_cast<double>(group.n);
    const double mean = std::fabs(group.mean);
    set(Role::mean, at, (s.mean_error + to_float32_ * (mean + s.mean_error) + 2 * eta_out_) * slack_, group.modulus / n,
        range);
    const bool rstd = problem_.convention.saved == SavedStatistic::rstd;
    const double value = rstd ? group.rstd : group.variance;
    const double error = rstd ? s.rstd_error : s.variance_error;
    set(Role::stat, at, (error + to_float32_ * (value + error) + 2 * eta_out_) * slack_, value, range);
  }

  void judge_y(std::int64_t q, const Group& group, const Statistics& s, bool range) {
    if (!group.finite && problem_.phase == Phase::forward_training) return;
    const GroupTruth& exact = truth_.groups[static_cast<std::size_t>(q)];
    const bool plus_one = problem_.gamma && problem_.convention.gamma == GammaOffset::plus_one;
    // Roundings of the product of three factors, the last of which may be 1+w; centred: of d^ as well, folded: of a
    // alone. Then those of the sum with β and of the conversion to float32.
    const bool centred = claim_.form == AffineForm::centred;
    const double products = (centred ? 1 : 0) + (problem_.gamma ? 1 : 0) + (plus_one ? 1 : 0);
    const double theta = compound({centred ? s.difference_roundoff : 0, gamma_factor(products, u_s_)});
    const double last = compound({problem_.beta || !centred ? u_s_ : 0, to_float32_});
    const bool given_rstd = problem_.given == Given::saved && problem_.convention.saved == SavedStatistic::rstd;
    const bool nan_demanded = std::isnan(exact.rstd.hi) || (std::isnan(exact.variance.hi) && !given_rstd);
    const double delta = s.mean_error + (row_.centred ? 0 : zeta_);
    // Systematic sums of the levels, over γ as the kernel uses it.
    double row_scale = 0, gain_square = 0, gamma_square = 0, gamma_gain = 0, gamma_deviation = 0, gamma_sum = 0,
           rounding_gain = 0, rounding_sum = 0;
    bool level_judged = range && std::isfinite(s.rstd_error) && group.n > 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
      const double weight =
          problem_.gamma ? static_cast<double>(inputs_[Role::gamma][c]) + (plus_one ? 1.0 : 0.0) : 1.0;
      const double beta = problem_.beta ? static_cast<double>(inputs_[Role::beta][c]) : 0.0;
      const double x = x_at(i);
      const double d = deviation(x, exact);
      const double product = weight * (d * group.rstd);
      if (!std::isfinite(x) || !std::isfinite(weight) || !std::isfinite(beta)) {
        level_judged = false;
        return;
      }
      if (nan_demanded) {
        set(Role::y, index, 0, 0x1p-126, range);
        level_judged = false;
        return;
      }
      const double w = std::fabs(weight);
      const double y = std::fabs(truth_.out[Role::y][index].hi);
      const double reach = std::fabs(d) + delta;  // |d^| before its rounding
      const double a = w * s.rstd.high;
      double rounding = 0;
      if (centred) {
        rounding = a * reach * theta;
      } else {
        const double hat = a * (1 + theta);
        const double mean = row_.centred ? std::fabs(group.mean) + delta : 0;
        const double offset = mean * hat * (1 + u_s_) + std::fabs(beta);
        rounding = a * reach * theta + u_s_ * (std::fabs(x) * hat + mean * hat + offset);
      }
      // Underflow of d r, r γ, d γ, of the difference itself, and subnormal x or γ read as 0.
      const double flushed =
          claim_.subnormals == Subnormals::flushed ? (a + s.rstd.high * reach) * (eta_s_ + zeta_) : 0;
      rounding += eta_s_ * (w + reach + s.rstd.high + 2) + flushed + eta_out_;
      const double systematic = w * (std::fabs(d) * s.rstd_error + delta * s.rstd.high);
      const double before = systematic + rounding;
      const double final_rounding = last * (y + before) + zeta_;
      const bool product_fits = a < 0x1p127 && a * (std::fabs(group.mean) + std::fabs(x)) < 0x1p127;
      set(Role::y, index, (before + final_rounding) * slack_, 0, range && product_fits && std::isfinite(s.rstd_error));
      row_scale = std::max(row_scale, std::fabs(product) + std::fabs(beta));
      const double rho = rounding + final_rounding;
      gain_square += product * product;
      gamma_square += weight * weight;
      gamma_gain += weight * product;
      gamma_deviation += weight * d;
      gamma_sum += weight;
      rounding_gain += rho * std::fabs(product);
      rounding_sum += rho;
    });
    groups_.for_each(q, [&](std::int64_t i, const Shape&) {
      bounds_.scale[Role::y][static_cast<std::size_t>(i)] = std::max(row_scale, 0x1p-126);
    });
    if (!level_judged || gain_square == 0) return;
    // The signed sums are rounded in double: at most n 2^-52 of the sums of their moduli, each of which is at most a
    // product of two norms (Cauchy-Schwarz).
    const double n = static_cast<double>(group.n);
    const double doubt = n * 0x1p-52 * std::sqrt(gamma_square);
    const double gamma_gain_bound = std::fabs(gamma_gain) + doubt * std::sqrt(gain_square);
    const double gamma_deviation_bound = std::fabs(gamma_deviation) + doubt * std::sqrt(group.deviations);
    const double gamma_sum_bound = std::fabs(gamma_sum) + doubt * std::sqrt(n);
    const double shift = delta * s.rstd.high;
    auto& levels = bounds_.levels[static_cast<std::size_t>(q)];
    levels.gain_bound = (s.rstd_error / group.rstd + (shift * gamma_gain_bound + rounding_gain) / gain_square) * slack_;
    levels.offset_bound = (gamma_deviation_bound * s.rstd_error + shift * gamma_sum_bound + rounding_sum) / n * slack_;
  }

  // The batch value of one channel's running statistics: a group for batch_norm, the average of N groups for
  // instance_norm.
  struct Batch {
    double mean = 0, mean_error = 0, variance = 0, variance_error = 0;  // sums of moduli and of errors over the groups
    std::int64_t groups = 0;
    bool judged = true;
    bool finite = true;
  };

  void take_in(std::int64_t q, const Group& group, const Statistics& s, bool range) {
    if (!updates_state(group.n)) return;
    Batch& batch = batch_[static_cast<std::size_t>(dense_index(problem_.shape, row_.running, groups_.origin(q)))];
    ++batch.groups;
    if (!range || !group.finite) {
      batch.judged = false;
      batch.finite = batch.finite && group.finite;
      return;
    }
    const bool stored_n_minus_1 = problem_.convention.stored == StoredDivisor::n_minus_1;
    const bool normalizes_n_minus_1 = problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    const double n = static_cast<double>(group.n);
    batch.mean += std::fabs(group.mean);
    batch.mean_error += s.mean_error;
    if (group.n == 1) {
      // Zero, or 0/0: NaN is then demanded by the truth. A two-pass variance of one value is (x - m^)², at most δ².
      batch.variance_error += std::max(s.variance_error, s.mean_error * s.mean_error * 1.01);
      return;
    }
    const double normalizing = normalizes_n_minus_1 ? n - 1 : n;
    const double stored = stored_n_minus_1 ? n - 1 : n;
    const double ratio = normalizing / stored;
    const double variance = group.variance * ratio;
    // v^ n/(n-1): the factor and the product have a rounding each, in float32 at worst; none if the divisors agree.
    const double t = ratio == 1 ? 0 : gamma_factor(2, unit_float32);
    batch.variance += variance;
    batch.variance_error += s.variance_error * ratio * (1 + t) + variance * t + 2 * eta_s_;
  }

  // A step is keep*old + take*batch or old + take*(batch-old), in the statistics type, with weights that may be rounded
  // to float32 and a last rounding into float32: with K = (1+u)(1+u_s)³(1+u) - 1 either way errs by at most
  // K (|keep| + |take|)(|old| + |batch| + e) + take e. An average over N groups adds its sum and three roundings,
  // before the update or (when each sample's state is updated and then averaged) after it.
  void judge_state() {
    const auto weights = update_weights(problem_.convention.momentum, problem_.momentum, problem_.step);
    const double both = std::fabs(weights.keep) + std::fabs(weights.take);
    const bool updates = updates_state(groups_.size()) && groups_.count() > 0;
    for (std::size_t c = 0; c < batch_.size(); ++c) {
      const Batch& batch = batch_[c];
      const double count = std::max<double>(1, static_cast<double>(batch.groups));
      double k = compound({gamma_factor(2, unit_float32), gamma_factor(3, u_s_)});
      if (batch.groups > 1)
        k = compound(
            {k, sum_factor(claim_.across_groups, batch.groups, ScalarType::float32), gamma_factor(3, unit_float32)});
      const auto judge = [&](Role role, double modulus, double error) {
        if (truth_.out[role].empty()) return;
        const double old = std::fabs(static_cast<double>(inputs_[role][c]));
        const double b = modulus / count;
        const double e = error / count;
        const bool kept = !updates || batch.groups == 0;
        const double total = k * both * (old + b + e) + std::fabs(weights.take) * e +
                             2 * parameter_roundoff_ * (old + b + e) + 4 * eta_out_;
        set(role, c, kept ? 0 : total * slack_, old + b, batch.judged);
      };
      judge(Role::running_mean, batch.mean, batch.mean_error);
      judge(Role::running_var, batch.variance, batch.variance_error);
      if (keeps_variance(problem_.convention, groups_.size())) set(Role::running_var, c, 0, 0x1p-126, true);
    }
    if (!truth_.out[Role::running_weight].empty()) {
      const double value = truth_.out[Role::running_weight][0].hi;
      set(Role::running_weight, 0, updates ? 2 * value * (unit_float32 + parameter_roundoff_) * slack_ : 0, value,
          true);
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Truth& truth_;
  const Claim& claim_;
  const VariantRow& row_;
  Groups groups_;
  double u_a_;
  double u_s_;
  double narrowing_;
  double to_float32_;
  double eta_a_;
  double eta_s_;
  double eta_out_;
  double zeta_;
  double parameter_roundoff_ = 0;
  Interval eps_;
  double slack_ = 1;
  std::vector<Batch> batch_;
  Bounds bounds_;
};

}  // namespace

Bounds forward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim) {
  return Forward(problem, inputs, truth, claim).run();
}

}  // namespace normgate
