// Merged statistics as a kernel computes them. The parts are exact inputs; each step below states what is proved, for
// every kernel that merges as the header of the ABI says, in IEEE round-to-nearest. No term is neglected.
//
// Notation, per group, over the parts that have elements: J parts of P; n_p, m_p, v_p >= 0 as they are handed; n, m, v
// those of the union; M = max |m_p|, R = max m_p - min m_p, W = Σ n_p v_p, B = Σ n_p (m_p - m)². u and η: unit roundoff
// and underflow of the less exact of both claimed types; ζ: what reading a subnormal number as 0 costs. D: merges that
// a part goes through at most, with the first one, into nothing, which can round as well (fl(fl(m n_b) / n_b)).
//
//  counts     n_p are exact. Sums of counts are, up to 2^24 (2^53); beyond, each carries c = D + 1 roundings, else c =
//  0. mean       In pairs: the exact mean of two computed ones is a convex combination, whose error is at most the
//  greater
//             of theirs, e; their difference is at most R + 2e, their moduli at most M + e. m_a + (m_b - m_a) n_b/n
//             adds γ_k (R + 2e), k = 4 + 2c (difference, two products, and 1/n or a quotient), and u (M + e + γ_k (R +
//             2e)); (m_a n_a + m_b n_b)/n adds γ_k (M + e), k = 5 + 3c. So e <- e + the greater of these + 4 n η, D
//             times. At once: Σ n_p m_p / n has ((1+u)(1+G)(1+γ_{2+c}) - 1) Σ n_p |m_p| / n, G = sum_factor, + ζ + (P +
//             2) η. E: the greater of both.
//  variance   In pairs: merge j adds h_j (δ_j + d_j)², h_j = n_a n_b / (n_a + n_b), δ_j the exact difference of the two
//             exact means, |d_j| <= d = 2E + η. Σ h_j δ_j² = B, so that by Cauchy-Schwarz what is added is off by at
//             most C = 2 d sqrt(H B) + H d², H = Σ h_j. h_j is at most the smaller count: along one chain H <= Σ n_b =
//             n; in general an element is in the smaller half at most D times, and at most log2(n) times. All terms are
//             >= 0: each has at most 10 + 3c roundings of its own (square of a rounded difference: 3, three counts and
//             a reciprocal: 4, or n_p v_p: 1; the last division: 3) and 5 + 2c in each merge (sums M_a + M_b + t have
//             2; variances (n_a v_a + n_b v_b)/n + t have 5): K = 10 + 3c + D (5 + 2c). |v^ - v| <= (C + γ_K (W + B +
//             C)) / n + 8 (P + 1) n η + ζ. At once: Σ n_p (v_p + (m_p - m^)²) is W + B + n E² with fewer roundings:
//             since D exceeds the depth of the sum and n E² < C, the same bound holds.
//  one-pass   fl(Σ n_p (v_p + m_p²) / n) - fl(m^²): ρ (W + Σ n_p m_p²) / n + (2 |m| E + E²)(1+u) + u m², ρ =
//  (1+γ_4)(1+G)
//             (1+γ_{2+c}) - 1, and u of the difference; the greater of this and the above.
//  result     One more rounding into float32.
//
// A NaN in a part that has elements makes of the mean, if it is in part_mean, and of the variance NaN; a single part's
// variance may be handed on without its mean. Infinities are not judged: merged in pairs they leave NaN where the
// definition has infinity.
#include "reference/bounds/merge.hpp"

#include <algorithm>
#include <cmath>

#include "reference/bounds/judged.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

using namespace bounds;

// Merges on the longest path of a part, whatever lanes or blocks stay empty.
double merges_of(const Sum& sum, std::int64_t parts) {
  const auto up = [](double a, double b) { return std::ceil(a / b); };
  const auto p = static_cast<double>(std::max<std::int64_t>(parts, 1));
  const auto lanes = static_cast<double>(sum.lanes);
  const auto block = static_cast<double>(sum.block);
  const double blocks = up(p, block);
  const double tree = std::ceil(std::log2(lanes));
  switch (sum.order) {
    case SumOrder::sequential:
      break;
    case SumOrder::interleaved:
      return up(p, lanes) + tree + 1;
    case SumOrder::pairwise:
      return up(std::min(p, block), lanes) + tree + std::ceil(std::log2(blocks)) + 1;
    case SumOrder::blocked:
      return up(std::min(p, block), lanes) + tree + blocks + 1;
  }
  return p;
}

// Of the parts that have elements.
struct Union {
  std::int64_t parts = 0;
  double n = 0;
  double largest_mean = 0;  // M
  double low = infinity;
  double high = -infinity;
  double means = 0;         // Σ n_p |m_p|
  double mean_squares = 0;  // Σ n_p m_p²
  double variances = 0;     // W
  double between = 0;       // B
  double largest_variance = 0;
  bool negative = false;  // a variance that is none
  bool nan_mean = false, nan_variance = false, infinite_mean = false, infinite_variance = false;
};

class Merge {
 public:
  Merge(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim)
      : inputs_(inputs),
        truth_(truth),
        claim_(claim),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        type_(claim.accumulator == ScalarType::float64 && claim.statistics == ScalarType::float64
                  ? ScalarType::float64
                  : ScalarType::float32),
        u_(unit_roundoff(type_)),
        eta_(underflow_unit(type_, claim.subnormals)),
        zeta_(claim.subnormals == Subnormals::flushed ? 0x1p-126 : 0) {}

  Bounds run() {
    const auto count = static_cast<std::size_t>(groups_.count());
    for (const Role role : {Role::mean, Role::stat}) {
      bounds_.tolerance[role].assign(truth_.out[role].size(), infinity);
      bounds_.scale[role].assign(truth_.out[role].size(), 0x1p-126);
    }
    bounds_.levels.assign(count, {infinity, infinity});
    bounds_.in_range.assign(count, true);
    for (std::int64_t q = 0; q < groups_.count(); ++q) judge(q);
    return std::move(bounds_);
  }

 private:
  [[nodiscard]] Union gather(std::int64_t q) const {
    Union all;
    const Exact& mean = truth_.groups[static_cast<std::size_t>(q)].mean;
    std::size_t p = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape&) {
      const auto n = static_cast<double>(inputs_[Role::part_count][p++]);
      if (n == 0) return;
      const auto at = static_cast<std::size_t>(i);
      const double m = row_.centred ? static_cast<double>(inputs_[Role::part_mean][at]) : 0;
      const auto v = static_cast<double>(inputs_[Role::part_stat][at]);
      ++all.parts;
      all.n += n;
      all.nan_mean = all.nan_mean || std::isnan(m);
      all.nan_variance = all.nan_variance || std::isnan(v);
      all.infinite_mean = all.infinite_mean || std::isinf(m);
      all.infinite_variance = all.infinite_variance || std::isinf(v);
      all.negative = all.negative || v < 0;
      all.largest_mean = std::max(all.largest_mean, std::fabs(m));
      all.low = std::min(all.low, m);
      all.high = std::max(all.high, m);
      all.means += n * std::fabs(m);
      all.mean_squares += n * m * m;
      all.variances += n * v;
      all.largest_variance = std::max(all.largest_variance, v);
      const double d = row_.centred ? minus(m, mean) : 0;
      all.between += n * d * d;
    });
    return all;
  }

  [[nodiscard]] double mean_error(const Union& all, double merges, double rounded) const {
    const double range = all.high - all.low;
    const double difference = gamma_factor(4 + 2 * rounded, u_);
    const double weighted = gamma_factor(5 + 3 * rounded, u_);
    double e = zeta_;
    for (double level = 0; level < merges && e < infinity; ++level) {
      const double apart = difference * (range + 2 * e);
      const double by_difference = apart + u_ * (all.largest_mean + e + apart);
      e += std::max(by_difference, weighted * (all.largest_mean + e)) + 4 * all.n * eta_;
    }
    const double at_once =
        compound({u_, sum_factor(claim_.group_sum, groups_.size(), type_), gamma_factor(2 + rounded, u_)}) * all.means /
            all.n +
        zeta_ + static_cast<double>(groups_.size() + 2) * eta_;
    return std::max(e, at_once);
  }

  void judge(std::int64_t q) {
    const auto at = static_cast<std::size_t>(q);
    const Union all = gather(q);
    if (all.n == 0) return;
    const GroupTruth& exact = truth_.groups[at];
    const std::int64_t parts = groups_.size();
    const double merges = merges_of(claim_.group_sum, parts);
    const double rounded = all.n > exact_integers(type_) ? merges + 1 : 0;
    // Every quantity is evaluated in double from sums over the parts.
    const double slack = 1 + (static_cast<double>(parts) + 8 * merges + 400) * 0x1p-52;
    const bool finite_mean = !all.nan_mean && !all.infinite_mean;
    const bool range = in_range(all);
    bounds_.in_range[at] = range;
    double e = 0;
    if (row_.centred) {
      e = finite_mean ? mean_error(all, merges, rounded) : 0;
      const double m = std::fabs(exact.mean.hi);
      enter(bounds_, truth_, Role::mean, at,
            (e + unit_float32 * (m + e) + 2 * underflow_unit(ScalarType::float32, claim_.subnormals)) * slack,
            all.means / all.n, all.nan_mean || (finite_mean && range));
    }
    const bool nan = all.nan_variance || (all.nan_mean && all.parts > 1);
    const bool finite = finite_mean && !all.nan_variance && !all.infinite_variance && !all.negative;
    const double v = exact.variance.hi;
    const double error = finite ? variance_error(all, exact, e, merges, rounded) : 0;
    enter(bounds_, truth_, Role::stat, at,
          (error + unit_float32 * (v + error) + 2 * underflow_unit(ScalarType::float32, claim_.subnormals)) * slack, v,
          nan || (finite && range));
  }

  [[nodiscard]] double variance_error(const Union& all, const GroupTruth& exact, double e, double merges,
                                      double rounded) const {
    const double relative = gamma_factor(10 + 3 * rounded + merges * (5 + 2 * rounded), u_);
    const double underflow = 8 * static_cast<double>(groups_.size() + 1) * all.n * eta_ + zeta_;
    const bool chain = claim_.group_sum.order == SumOrder::sequential;
    const double h = all.n * (chain ? 1 : std::min(merges, 1 + std::log2(all.n)));
    const double d = row_.centred ? 2 * e + eta_ : 0;
    const double c = 2 * d * std::sqrt(h * all.between) + h * d * d;
    const double centred = (c + relative * (all.variances + all.between + c)) / all.n + underflow;
    if (!row_.centred || claim_.variance != VarianceAlgorithm::one_pass) return centred;
    const double rho = compound(
        {gamma_factor(4, u_), sum_factor(claim_.group_sum, groups_.size(), type_), gamma_factor(2 + rounded, u_)});
    const double m = std::fabs(exact.mean.hi);
    const double one_pass =
        rho * (all.variances + all.mean_squares) / all.n + (2 * m * e + e * e) * (1 + u_) + u_ * m * m;
    return std::max(centred, one_pass + u_ * (exact.variance.hi + one_pass) + underflow);
  }

  // In float32 no product of counts, means and differences may overflow, in whatever order; the first part may be
  // merged into nothing, from which it differs by its mean.
  [[nodiscard]] bool in_range(const Union& all) const {
    if (type_ == ScalarType::float64) return true;
    const double apart = 2 * all.largest_mean;
    return all.n * all.largest_mean < 0x1p126 && all.n * all.n * (all.largest_variance + apart * apart) < 0x1p126 &&
           (claim_.variance != VarianceAlgorithm::one_pass || all.variances + all.mean_squares < 0x1p126);
  }

  const Inputs& inputs_;
  const Truth& truth_;
  const Claim& claim_;
  const VariantRow& row_;
  Groups groups_;
  ScalarType type_;
  double u_;
  double eta_;
  double zeta_;
  Bounds bounds_;
};

}  // namespace

Bounds merge_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim) {
  return Merge(problem, inputs, truth, claim).run();
}

Moved moved_by(const std::vector<PartError>& parts) {
  double n = 0;
  Moved result;
  for (const PartError& part : parts) {
    if (part.count == 0) continue;
    n += part.count;
    result.mean += part.count * part.mean;
    result.variance += part.count * (part.variance + 2 * std::fabs(part.deviation) * part.mean + part.mean * part.mean);
  }
  if (n == 0) return {infinity, infinity};
  const double slack = 1 + static_cast<double>(parts.size() + 20) * 0x1p-52;
  result.mean *= slack / n;
  result.variance *= slack / n;
  return result;
}

}  // namespace normgate
