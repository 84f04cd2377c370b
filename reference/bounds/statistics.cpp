// Statistics as a kernel computes them. Each step below states what is proved; together they bound |computed - true|
// for every kernel that computes as it claims, in IEEE round-to-nearest, on this very input. No term is neglected.
// Contraction to fused multiply-adds leaves roundings out, so that what is counted here covers it.
//
// Notation, per group: n elements x, mean μ, d = x - μ, v the normalizing variance (divisor N_v, n or n-1), r = 1/D.
// u_a, u_s: unit roundoff of the claimed accumulator and statistics types; u = 2^-24. A hat is the computed value.
// G: sum_factor, |Σ^ - Σ| <= G Σ|terms|. η: underflow of one operation; ζ: what reading a subnormal input as 0 costs.
//
//  mean       S^ = Σx + e, |e| <= G Σ|x|. Dividing by n is k roundings: 0 if n is a power of two, 1 if the kernel
//             claims to divide, else 2 (1/n and the product), one more where n itself is rounded, and one more into a
//             narrower statistics type: factor 1+t, t = (1+u_a)^k (1+u_s) - 1.
//             |m^ - μ| <= (G Σ|x| / n + a (1+G)) (1+t) + |μ| t + η_a + η_s =: δ, with a = ζ, and η_a for flushed
//             partial sums: n additions lose at most η_a each, and what is lost is one more term of the sum.
//  exactness  If all x are multiples of a grid g and Σ|x| < 2^p g, every partial sum in any order is exact: G = 0. If
//             then Σx/n is representable and the division is exact (S = 0, n a power of two, or divides by n): δ = 0.
//             If further μ is a multiple of g and max|d| <= 2^24 g, differences are exact, and if Σd² < 2^p g² the sum
//             of squares is. This is where a wrong divisor has nowhere to hide. Double decides this: it sums such
//             multiples exactly up to 2^53 g, and beyond that its rounding never comes back below 2^53 g.
//  two-pass   d^ = (d - δ_m)(1+ε), |ε| <= u_d; Σ(d-δ_m)² = Σd² + n δ_m², since Σd = 0. All terms are >= 0, so
//             V^ = (Σd² + nδ_m²)(1+Θ), |Θ| <= T = (1+u_d)² (1+u_q) (1+G) (1+t_v) - 1, plus α for underflow:
//             v (1-T) - α <= v^ <= (v + (n/N_v) δ²)(1+T) + α.
//             The square may be taken in either type, and d^ narrowed into the accumulator's before.
//  one-pass   v^ = fl(fl(Σx²/n) - fl(m^²)): |v^ - v| <= (Σx²/n)((1+u_q)(1+G)(1+t)-1) + (2|μ|δ+δ²)(1+u_s) + μ²u_s, then
//             the rounding of the difference, and those of n/(n-1). fl(Σx²) - fl(n m^ m^) or fl(S^ m^), divided
//             afterwards, is covered too: derived at one_pass().
//  Welford    derived at welford_mean() and welford_sum_error().
//  root       w = v + eps has one rounding, the root and the quotient one each (or rsqrt_ulp for both): r^ lies between
//             the values at both ends of v^'s interval, since D is monotonic in v. If the lower end makes D 0 or
//             undefined, nothing is judged.
#include "reference/bounds/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace normgate::bounds {
namespace {

// [v - down, v + up], moved outward by what v's own low part and the rounding of the ends in double can hide.
Interval around(double v, double down, double up) {
  const double doubt = (std::fabs(v) + down + up) * 0x1p-50;
  return {v - (down + doubt), v + (up + doubt)};
}

}  // namespace

double grid_of(double value) {
  if (value == 0 || !std::isfinite(value)) return infinity;  // groups with others than numbers are never exact
  const double modulus = std::fabs(value);
  const auto bits = std::bit_cast<std::uint64_t>(modulus);
  if ((bits & 0xFFFFFFFFFFFFFU) == 0) return modulus;  // a power of two
  // What the last set bit of the fraction is worth.
  return modulus - std::bit_cast<double>(bits & (bits - 1));
}

// fma gives the exact residual.
bool quotient_is_float32(double numerator, double n) {
  const double quotient = numerator / n;
  return std::fma(quotient, n, -numerator) == 0 && is_float32(quotient);
}

Group gather(const Groups& groups, std::int64_t q, const std::vector<float>& x, const GroupTruth& exact) {
  Group group;
  group.n = groups.size();
  group.mean = exact.mean.hi;
  group.variance = exact.variance.hi;
  group.rstd = exact.rstd.hi;
  groups.for_each(q, [&](std::int64_t i, const Shape&) {
    const auto value = static_cast<double>(x[static_cast<std::size_t>(i)]);
    if (!std::isfinite(value)) group.finite = false;
    // The error of d, 2^-52 |d| + 2^-105 |μ|, is inside the slack and the 2^-100 |μ| that mean_error carries.
    const double d = minus(value, exact.mean);
    group.sum += value;
    group.modulus += std::fabs(value);
    group.squares += value * value;
    group.largest = std::max(group.largest, std::fabs(value));
    group.deviations += d * d;
    group.largest_deviation = std::max(group.largest_deviation, std::fabs(d));
    group.grid = std::min(group.grid, grid_of(value));
  });
  return group;
}

StatisticsBounds::StatisticsBounds(const Problem& problem, const Claim& claim)
    : Arithmetic(claim), problem_(problem), claim_(claim), row_(row_of(problem.variant)) {
  const bool rounded = problem.profile == Profile::parameter_rounding && problem.convention.scalars == Scalars::float32;
  parameter_roundoff_ = rounded ? unit_float32 : 0;
  eps_ = {problem.eps * (1 - parameter_roundoff_), problem.eps * (1 + parameter_roundoff_)};
}

bool StatisticsBounds::squares_fit(const Group& group) const {
  return group.modulus <= 0x1p127 && group.deviations <= 0x1p127 &&
         (claim_.variance != VarianceAlgorithm::one_pass || group.squares <= 0x1p127);
}

bool StatisticsBounds::rounds_count(std::int64_t n) const {
  return static_cast<double>(n) > exact_integers(claim_.accumulator) && !is_power_of_two(n);
}

bool StatisticsBounds::divides_exactly(std::int64_t n) const {
  return is_power_of_two(n) || (claim_.divides_by_n && !rounds_count(n));
}

double StatisticsBounds::division(std::int64_t n) const {
  const double k = is_power_of_two(n) ? 0 : (claim_.divides_by_n ? 1 : 2) + (rounds_count(n) ? 1 : 0);
  return compound({gamma_factor(k, u_a), narrowing});
}

// (1+t) of n/(n-1), in either type: n, fl(n) - 1, the quotient and the product.
double StatisticsBounds::correction(std::int64_t n) const {
  const double u = std::max(u_a, u_s);
  return gamma_factor(static_cast<double>(n) * u > 1 ? 4 : 2, u);
}

double StatisticsBounds::division_by_n_minus_1(std::int64_t n) const {
  const double direct = compound({gamma_factor(rounds_count(n) ? 4 : 2, u_a), narrowing});
  return std::max(direct, compound({division(n), correction(n)}));
}

// What such a division can lose to underflow: the quotient and its narrowing, scaled by n/(n-1), and the product.
double StatisticsBounds::division_underflow(std::int64_t n, bool n_minus_1) const {
  const double eta = eta_a + eta_s;
  if (!n_minus_1) return eta;
  const double inflation = static_cast<double>(n) / static_cast<double>(n - 1);
  return inflation * eta * (1 + correction(n)) + std::max(eta_a, eta_s);
}

bool StatisticsBounds::sums_exactly(const Group& group, double modulus, double grid) const {
  return claim_.variance != VarianceAlgorithm::welford && group.finite && grid >= 0x1p-126 &&
         (grid == infinity || modulus < exact_integers(claim_.accumulator) * grid);
}

// The same of squares, which the kernel may take in either of its types.
bool StatisticsBounds::sums_squares_exactly(const Group& group, double squares, double largest) const {
  if (group.grid == infinity) return sums_exactly(group, 0, infinity);
  const double grid = group.grid * group.grid;
  const double most = std::max(u_a, u_s) == unit_float32 ? 0x1p24 : 0x1p53;
  return sums_exactly(group, squares, grid) && largest * largest <= most * grid;
}

StatisticsBounds::Recurrence StatisticsBounds::recurrence(std::int64_t elements) const {
  const Sum& sum = claim_.group_sum;
  const double n = static_cast<double>(elements);
  const double lanes = sum.order == SumOrder::sequential ? 1 : static_cast<double>(sum.lanes);
  const bool in_blocks = sum.order == SumOrder::pairwise || sum.order == SumOrder::blocked;
  const double block = in_blocks ? std::min(n, static_cast<double>(sum.block)) : n;
  const double blocks = std::ceil(n / block);
  Recurrence result;
  result.run = std::ceil(block / lanes);
  result.levels = std::ceil(std::log2(lanes)) + (sum.order == SumOrder::pairwise ? std::ceil(std::log2(blocks)) : 0);
  result.chain = sum.order == SumOrder::blocked ? blocks : 0;
  result.rounded_counts = n > exact_integers(claim_.accumulator) ? 3 : 0;
  return result;
}

// Error of Welford's running mean, kept in the accumulator's type. m_k = m_{k-1} + fl(fl(x_k - m_{k-1}) / k) (or
// times a rounded 1/k) gives k |e_k| <= (k-1) |e_{k-1}| + 3.2 u (|x_k| + |m^_{k-1}|) + k u |m^_k|, and |m^_k| <= M +
// |e_k| with M = max|x|; summed over k and divided by n: |e_n| <= u (M + e) ((n+1)/2 + 6.5) in a run of n. (k is
// exact: runs above 2^24 give c >= 1/2.) A merge m = m_a + (m_b - m_a) n_b/n is a convex combination, whose error is
// at most the greater one, plus u (M + e) for its sum and 4 u (2 (M + e)) n_b/n for difference, quotient and product:
// at most 10 u (M + e) in a tree, and 6 u more where the three counts are rounded. Along a chain of J
// blocks the factors n_b/n add up: with N_j the count so far, N_j e_j <= N_{j-1} e_{j-1} + n_b e_b + u (M + e) (9 n_b
// + N_j), and ΣN_j <= n (J/2 + 1): 10 + J/2 more. With e the largest of all, e <= (u C M + A) / (1 - u C), where A is
// underflow: at most 3 η in each step, of which the chain keeps 3 η k/n.
double StatisticsBounds::running_mean_error(const Group& group) const {
  const Recurrence shape = recurrence(group.n);
  const double merge = 10 + 2 * shape.rounded_counts;
  const double c =
      u_a * ((shape.run + 1) / 2 + 6.5 + merge * shape.levels + (shape.chain > 1 ? merge + shape.chain / 2 : 0));
  if (c >= 0.5) return infinity;
  const double underflow = 3 * (shape.run + shape.levels + shape.chain + 1) * eta_a + zeta;
  return (c * group.largest + underflow) / (1 - c);
}

double StatisticsBounds::welford_mean(const Group& group) const {
  return running_mean_error(group) * (1 + narrowing) + narrowing * std::fabs(group.mean) + eta_s;
}

// Σd² = Σ_k a_k b_k, a_k = x_k - μ_{k-1}, b_k = x_k - μ_k = a_k (k-1)/k >= 0 in product. With running means' errors
// at most e, |a^b^ - ab| <= (2 e |a| + e²)(1 + 4u) + 4u ab (the form a² (k-1)/k has 6u); the first term is exactly 0;
// Σ_{k>=2} |a_k| <= sqrt(n Σ a_k²) <= sqrt(2 n Σd²), as a_k² <= 2 a_k b_k. A merge adds (m_b - m_a)² w, w = n_a
// n_b/n: error (4 e|Δ| + 4 e²) w. In one level of a tree Σw <= n/4, by Cauchy-Schwarz <= 2 e sqrt(n Σd²) + e² n;
// along a chain w <= n_b, in all <= 4 e sqrt(n Σd²) + 4 e² n. All terms are >= 0; each has at most 7 roundings of its
// own and those of counts, and is added in its run, twice per merge. Underflow and flushed or unread numbers move a
// and b by at most η + ζ, as another e would, and lose η per product and per sum.
double StatisticsBounds::welford_sum_error(const Group& group) const {
  const Recurrence shape = recurrence(group.n);
  const double e = running_mean_error(group) + (flushed ? eta_a + zeta : 0);
  const double n = static_cast<double>(group.n);
  const double root = std::sqrt(n * group.deviations);
  const double chained = shape.chain > 1 ? 4 : 0;
  const double direct = 2 * e * std::sqrt(2.0) * root + n * e * e + shape.levels * (2 * e * root + n * e * e) +
                        chained * (e * root + n * e * e);
  const double relative = gamma_factor(shape.run + 2 * (shape.levels + shape.chain) + 8 + shape.rounded_counts, u_a);
  return direct * (1 + relative) + group.deviations * relative + 8 * n * eta_a * (1 + relative);
}

Statistics StatisticsBounds::trained(const Group& group) const {
  if (!group.finite || group.n == 0) return unknown();
  Statistics s;
  const bool exact_sum = sums_exactly(group, group.modulus, group.grid);
  if (row_.centred) {
    s.mean_error = mean_error(group, exact_sum);
    s.difference_roundoff = u_s;
  }
  const bool exact_differences = s.mean_error == 0 && exact_sum && (!row_.centred || on_grid(group)) &&
                                 (group.grid == infinity || group.largest_deviation <= 0x1p24 * group.grid);
  if (exact_differences) s.difference_roundoff = 0;
  s.nan = std::isnan(group.rstd);
  const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
  if (n_minus_1 && group.n == 1) {
    // 0/0 where the convention says NaN (nothing to bound: NaN is demanded), a stated 0 elsewhere.
    Statistics over_n = s;
    Group single = group;
    single.variance = 0;
    spread(single, false, exact_differences, over_n);
    s.single_error = std::max(over_n.variance.high, -over_n.variance.low);
    s.variance = {0, 0};
  } else {
    spread(group, n_minus_1, exact_differences, s);
    s.fits = s.variance.high * static_cast<double>(n_minus_1 ? group.n - 1 : group.n) <= 0x1p127;
  }
  if (claim_.variance == VarianceAlgorithm::welford && row_.centred) {
    // A merge may multiply a square by a count before it divides by another, and a recurrence with a² (k-1)/k squares
    // the first element.
    const bool merges = recurrence(group.n).run < static_cast<double>(group.n);
    const double sum = s.variance.high * static_cast<double>(group.n);
    s.fits = s.fits && sum * (merges ? static_cast<double>(group.n) : 1.0) <= 0x1p127 &&
             group.largest * group.largest <= 0x1p127;
  }
  finish(group, s);
  return s;
}

bool StatisticsBounds::on_grid(const Group& group) {
  return group.grid == infinity || std::fmod(group.mean, group.grid) == 0;
}

// The interval of the computed variance over n or n-1.
void StatisticsBounds::spread(const Group& group, bool n_minus_1, bool exact_differences, Statistics& s) const {
  if (claim_.variance == VarianceAlgorithm::one_pass && row_.centred) {
    one_pass(group, n_minus_1, s);
  } else if (claim_.variance == VarianceAlgorithm::welford && row_.centred) {
    const std::int64_t divisor = n_minus_1 ? group.n - 1 : group.n;
    const double t = n_minus_1 ? division_by_n_minus_1(group.n) : division(group.n);
    const double error = welford_sum_error(group) / static_cast<double>(divisor) * (1 + t) + group.variance * t +
                         division_underflow(group.n, n_minus_1);
    s.variance = around(group.variance, error * slack(group.n), error * slack(group.n));
  } else {
    two_pass(group, n_minus_1, exact_differences, s);
  }
}

double StatisticsBounds::mean_error(const Group& group, bool exact_sum) const {
  if (claim_.variance == VarianceAlgorithm::welford) return welford_mean(group) * slack(group.n);
  const double n = static_cast<double>(group.n);
  if (exact_sum && group.sum == 0) return 0;
  if (exact_sum && divides_exactly(group.n) && quotient_is_float32(group.sum, n) && std::fabs(group.mean) >= 0x1p-126)
    return 0;
  const double factor = exact_sum ? 0 : sum_factor(claim_.group_sum, group.n, claim_.accumulator);
  const double t = division(group.n);
  const double absolute = exact_sum ? 0 : zeta + (flushed ? eta_a : 0);
  return ((factor * group.modulus / n + absolute * (1 + factor)) * (1 + t) + std::fabs(group.mean) * (t + 0x1p-100) +
          eta_a + eta_s) *
         slack(group.n);
}

void StatisticsBounds::two_pass(const Group& group, bool n_minus_1, bool exact_differences, Statistics& s) const {
  const std::int64_t divisor = n_minus_1 ? group.n - 1 : group.n;
  const double inflation = static_cast<double>(group.n) / static_cast<double>(divisor);
  const bool exact_squares =
      exact_differences && sums_squares_exactly(group, group.deviations, group.largest_deviation);
  const double u_q = exact_squares ? 0 : std::max(u_a, u_s);
  const double factor = exact_squares ? 0 : sum_factor(claim_.group_sum, group.n, claim_.accumulator);
  double t = n_minus_1 ? division_by_n_minus_1(group.n) : division(group.n);
  if (exact_squares && !n_minus_1 && divides_exactly(group.n) &&
      quotient_is_float32(group.deviations, static_cast<double>(group.n)))
    t = 0;
  const bool narrows = row_.centred && u_a > u_s && !exact_differences;  // d^ into the accumulator's type
  const double u_d = compound({s.difference_roundoff, narrows ? u_a : 0});
  const double relative = compound({u_d, u_d, u_q, factor, t});
  const double moved_by = inflation * s.mean_error * s.mean_error;
  const double moved = group.variance + moved_by;
  // What is lost in absolute terms, over the divisor. In the sum: η for each square and each flushed partial sum;
  // each difference moved by f has |Σ(d+f)² - Σd²| <= 2 f sqrt(n Σd²) + n f². Then η of the division and of
  // narrowing.
  double underflow = 0;
  if (!exact_squares) {
    const double f = (narrows ? eta_a : 0) + (flushed ? eta_s + zeta : 0);
    underflow = (inflation * (std::max(eta_a, eta_s) + (flushed ? eta_a : 0)) + 2 * f * std::sqrt(inflation * moved) +
                 inflation * f * f) *
                (1 + relative);
  }
  if (!exact_squares || (group.variance != 0 && group.variance < 0x1p-126))
    underflow += division_underflow(group.n, n_minus_1);
  if (relative == 0 && moved_by == 0 && underflow == 0) {
    s.variance = {group.variance, group.variance};
    return;
  }
  const double down = (group.variance * relative + underflow) * slack(group.n);
  const double up = (moved_by + moved * relative + underflow) * slack(group.n);
  s.variance = around(group.variance, down, up);
  const double base = s.variance.low;
  s.variance.low = std::max(0.0, base);  // a sum of squares is never negative
  // See shift(). A v^ that is read as 0 where it is subnormal lies lower by less than η_s.
  const double unread = flushed ? eta_s : 0;
  const double eps = problem_.convention.eps == EpsPlacement::inside ? eps_.low : 0;
  s.moves = base - unread + eps >= 0;
  s.moved_low = around(moved, (moved * relative + underflow) * slack(group.n) + unread, 0).low;
}

// v^ = v_n^ n/(n-1), v_n = Σx²/n - μ². A kernel that subtracts first, fl(Σx²) - fl(fl(n m^) m^) or fl(S^ m^), divides
// afterwards: of m² it has one product's rounding more and of Σx² the division's less, or, where n is a power of two,
// the same; S^/n is as near to μ as δ; and its division by n or n-1 stands in place of the factor's roundings.
void StatisticsBounds::one_pass(const Group& group, bool n_minus_1, Statistics& s) const {
  const double n = static_cast<double>(group.n);
  const double mean_square = group.squares / n;
  const double mu = std::fabs(group.mean);
  const double u = std::max(u_a, u_s);
  // Σx² may be narrowed before it is divided. (Where it fits, so does |Σx| <= Σx²/g.)
  const bool narrows_exactly = group.grid == infinity || u == u_a || group.squares < 0x1p24 * group.grid * group.grid;
  const bool exact = s.mean_error == 0 && on_grid(group) && narrows_exactly &&
                     sums_squares_exactly(group, group.squares, group.largest);
  const double factor = exact ? 0 : sum_factor(claim_.group_sum, group.n, claim_.accumulator);
  const double t = exact && divides_exactly(group.n) && quotient_is_float32(group.squares, n) ? 0 : division(group.n);
  // μ² is then a multiple of the squares' grid, at most Σx²/n.
  const double u_m = exact && is_float32(mu * mu) ? 0 : u;
  const double relative = compound({exact ? 0 : u, factor, t});
  const double eta = std::max(eta_a, eta_s);
  // Squares (also of x read as 0), flushed partial sums; then the quotient, its narrowing, m² and the difference.
  const double underflow = (eta + (flushed ? eta_a : 0) + zeta * zeta) * (1 + relative) + 4 * eta;
  const double error = mean_square * relative + (2 * mu * s.mean_error + s.mean_error * s.mean_error) * (1 + u) +
                       u_m * mu * mu + underflow;
  const double inflation = n_minus_1 ? n / (n - 1) : 1;
  const double population = group.variance / inflation;
  const double after = error + u * (population + error);
  const double scaled = n_minus_1 ? division_by_n_minus_1(group.n) : division(group.n);
  const double total =
      (after * inflation * (1 + scaled) + group.variance * scaled + division_underflow(group.n, n_minus_1)) *
      slack(group.n);
  s.variance = around(group.variance, total, total);
}

// Statistics that are handed to the kernel are exact, but for a division by an accumulated weight (a quotient, or a
// product with its rounded reciprocal) and for subnormals that are read as 0.
Statistics StatisticsBounds::given(const Group& group) const {
  Statistics s;
  s.difference_roundoff = row_.centred ? u_s : 0;
  // What follows from an infinite statistic is a matter of extended reals, not of rounding; but a floor takes every
  // variance below eps, -infinity too, for eps.
  const bool floored = problem_.convention.eps == EpsPlacement::floor && group.variance < 0;
  if (std::isinf(group.mean) || (std::isinf(group.variance) && !floored) || std::isinf(group.rstd)) return unknown();
  if (std::isinf(group.variance)) {
    s.variance = {0, 0};
    finish(group, s);
    return s;
  }
  const bool weighted =
      problem_.given == Given::running && problem_.convention.momentum == MomentumForm::accumulated_weight;
  const double t = weighted ? gamma_factor(2, unit_float32) : 0;
  const double mean = std::fabs(group.mean);
  if (weighted && mean != 0) s.mean_error = (mean * t + 2 * std::max(eta_s, eta_out) + zeta) * slack(group.n);
  if (!weighted && mean < 0x1p-126) s.mean_error = std::min(zeta, mean);
  s.nan = std::isnan(group.mean);
  if (problem_.given != Given::running && problem_.convention.saved == SavedStatistic::rstd) {
    const double r = std::fabs(group.rstd);
    s.nan = s.nan || std::isnan(r);
    s.variance = {0, infinity};
    s.rstd = {flushed && r < 0x1p-126 ? 0 : r, r};
    s.rstd_error = s.rstd.high == s.rstd.low ? 0 : r;
    s.shift = s.mean_error * r;
    return s;
  }
  s.variance = {group.variance, group.variance};
  if (flushed && std::fabs(group.variance) < 0x1p-126)
    s.variance = {std::min(0.0, group.variance), std::max(0.0, group.variance)};
  if (weighted && group.variance != 0) {
    const double error = (std::fabs(group.variance) * t + 2 * std::max(eta_s, eta_out) + zeta) * slack(group.n);
    s.variance = around(group.variance, error, error);
  }
  // The sign of a rounded sum is that of the sum; only one that may be flushed to 0 is in doubt.
  const EpsPlacement placement = problem_.convention.eps;
  const double radicand = s.variance.high + (placement == EpsPlacement::inside ? eps_.high : 0);
  s.nan =
      s.nan || std::isnan(group.variance) || (placement != EpsPlacement::floor && radicand < (flushed ? -0x1p-126 : 0));
  finish(group, s);
  return s;
}

Statistics StatisticsBounds::unknown() {
  Statistics s;
  s.mean_error = infinity;
  s.variance = {-infinity, infinity};
  s.variance_error = infinity;
  s.rstd = {0, infinity};
  s.rstd_error = infinity;
  return s;
}

// 1/sqrt(w), moved outward by its roundings: of the root and the quotient, or those that rsqrt_ulp counts, each at
// most 2 u of the exact value. `down` is towards smaller values.
double StatisticsBounds::inverse_root(double w, bool down) const {
  const double sign = down ? -1 : 1;
  if (claim_.rsqrt_ulp > 0) return (1 + sign * 2 * u_s * claim_.rsqrt_ulp) / std::sqrt(w);
  return 1 / (std::sqrt(w) * (1 - sign * u_s)) * (1 + sign * u_s);
}

// 1/D at one end of the variance's interval, moved outward by its own roundings and underflow. In double u_s itself
// is lost in 1+u_s: the factor 2^-48 covers up to three of these, the roundings here, and the truth's low part.
double StatisticsBounds::reciprocal(double v, double eps, bool down) const {
  const double sign = down ? 1 : -1;
  const double u = u_s;
  double r = 0;
  switch (problem_.convention.eps) {
    case EpsPlacement::inside:
      r = inverse_root((v + eps) * (1 + sign * (problem_.eps > 0 ? u : 0)), down);
      break;
    case EpsPlacement::outside: {
      // With an approximate 1/sqrt the root is v/sqrt(v) or 1/(1/sqrt(v)), and rounded.
      const double a = 2 * u * claim_.rsqrt_ulp;
      const double root = down ? (1 + u) / std::max(0.0, 1 - a) : std::max(0.0, 1 - a) * (1 - u);
      const double d = (v > 0 ? std::sqrt(v) * root : 0) + eps;
      r = 1 / (d * (1 + sign * u)) * (1 - sign * u);
      break;
    }
    case EpsPlacement::floor:
      r = inverse_root(std::max(v, eps), down);
      break;
  }
  return down ? std::max(0.0, r * (1 - 0x1p-48) - eta_s) : r * (1 + 0x1p-48) + eta_s;
}

// The largest |δ_m| r^. Two-pass with |δ_m| = s has v^ >= (v + (n/N_v) s²)(1-T) - α, and s / D of that grows with s
// for every placement of eps if v (1-T) - α (inside: plus eps) is not negative, so that s = δ is the worst. On a
// nearly constant group this is about sqrt(N_v/n) where δ times the largest r^ is δ / sqrt(eps). Where the mean is
// narrowed, the m^ that is subtracted in the end may differ from the one of the variance by that rounding.
double StatisticsBounds::shift(const Group& group, const Statistics& s) const {
  const double apart = s.mean_error * s.rstd.high;
  if (!s.moves) return apart;
  const double narrowed = narrowing > 0 ? narrowing * (std::fabs(group.mean) + s.mean_error) + eta_s : 0;
  const double together = s.mean_error * reciprocal(std::max(s.moved_low, 0.0), eps_.low, false);
  return std::min(apart, together + narrowed * s.rstd.high);
}

void StatisticsBounds::finish(const Group& group, Statistics& s) const {
  const EpsPlacement placement = problem_.convention.eps;
  s.variance_error =
      std::isnan(group.variance) ? 0 : std::max(s.variance.high - group.variance, group.variance - s.variance.low);
  // Read as 0 where it is subnormal and these are flushed; so is the sum with eps, which must then be normal.
  double low = s.variance.low;
  if (flushed && low > 0) low = std::max(0.0, low - eta_s);
  const double least = flushed ? eta_s : 0;
  // A kernel may compute a negative variance; where that can make D undefined nothing is judged.
  bool defined = false;
  if (placement == EpsPlacement::inside) {
    defined = low + eps_.low > 0 && low + eps_.low >= least;
  } else if (placement == EpsPlacement::outside) {
    defined = low >= 0 && std::sqrt(low) + eps_.low > 0;
  } else {
    low = std::max(low, 0.0);
    defined = std::max(low, eps_.low) > 0 && std::max(low, eps_.low) >= least;
  }
  if (!defined || !std::isfinite(group.rstd)) {
    s.rstd = {0, infinity};
    s.rstd_error = infinity;
    s.shift = infinity;
    return;
  }
  s.rstd = {reciprocal(s.variance.high, eps_.high, true), reciprocal(low, eps_.low, false)};
  s.rstd_error = std::max(s.rstd.high - group.rstd, group.rstd - s.rstd.low);
  s.shift = shift(group, s);
}

}  // namespace normgate::bounds
