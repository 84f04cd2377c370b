// Bounds of the forward phases. Each step below states what is proved; together they bound |computed - true| for every
// kernel that computes as it claims, in IEEE round-to-nearest, on this very input. No term is neglected. Contraction to
// fused multiply-adds leaves roundings out, so that what is counted here covers it. Notation and the statistics, δ, the
// interval of r^ and the rest, are statistics.cpp's.
//
//  centred    P = γ d r: |P^ - P| <= |γ| (|d| |r^-r| + δ r^ + (|d|+δ) r^ θ), θ from one rounding of the difference, one
//             or two products and 1+w; then one rounding of P + β, one into float32 if the statistics type is wider.
//             Where two-pass computes v^ with the same m^, a large δ_m makes r^ small: see shift().
//  folded     a = γ r, b = β - m a, y = x a + b: u_s (|x a| + |μ a| + |b|) in place of the rounding of the difference.
//
//  levels     e = γ d Δr - γ δ_m r^ + (element roundings ρ). With g = γ d r: Σ e g / Σ g² is at most
//             |Δr|/r + δ r^ |Σγg| / Σg² + Σ|ρ||g| / Σg², and the mean of e at most (|Σγd| |Δr| + δ r^ |Σγ| + Σ|ρ|) / n.
//             With a cotangent c, Σ c e is at most |Σcγd| |Δr| + δ r^ |Σcγ| + Σ|c||ρ|: errors that all elements share
//             cancel in it as much as the terms do, which Σ|c||e| would not show.
#include "reference/bounds/forward.hpp"

#include "reference/bounds/judged.hpp"
#include "reference/bounds/merge.hpp"
#include "reference/bounds/second_order.hpp"
#include "reference/bounds/statistics.hpp"
#include "reference/problem/affine.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/running.hpp"

namespace normgate {
namespace {

using namespace bounds;

class Forward : private StatisticsBounds {
 public:
  Forward(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim,
          const std::vector<float>* cotangent = nullptr)
      : StatisticsBounds(problem, claim),
        problem_(problem),
        inputs_(inputs),
        truth_(truth),
        claim_(claim),
        cotangent_(cotangent),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_) {}

  Bounds run() {
    allocate();
    const bool training = problem_.phase == Phase::forward_training;
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      const Group group = gather(groups_, q, inputs_[Role::x], truth_.groups[static_cast<std::size_t>(q)]);
      slack_ = slack(group.n);
      const Statistics statistics = training ? trained(group) : given(group);
      // Where statistics are given no sum is taken; what can overflow then is judged per element.
      const bool range = !training || (squares_fit(group) && statistics.fits);
      bounds_.in_range[static_cast<std::size_t>(q)] = range;
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
    if (cotangent_ != nullptr) bounds_.along.assign(count, infinity);
    if (problem_.running) batch_.resize(truth_.out[Role::running_var].size());
  }
  void set(Role role, std::size_t at, double tolerance, double scale, bool judged) {
    enter(bounds_, truth_, role, at, tolerance, scale, judged);
  }

  void judge_statistics(std::int64_t q, const Group& group, const Statistics& s, bool range) {
    if (problem_.phase != Phase::forward_training || group.n == 0 || !group.finite) return;
    const auto at = static_cast<std::size_t>(q);
    const double n = static_cast<double>(group.n);
    const double mean = std::fabs(group.mean);
    set(Role::mean, at, (s.mean_error + to_float32 * (mean + s.mean_error) + 2 * eta_out) * slack_, group.modulus / n,
        range);
    const bool rstd = problem_.convention.saved == SavedStatistic::rstd;
    const double value = rstd ? group.rstd : group.variance;
    const double error = rstd ? s.rstd_error : s.variance_error;
    set(Role::stat, at, (error + to_float32 * (value + error) + 2 * eta_out) * slack_, value, range);
  }

  void judge_y(std::int64_t q, const Group& group, const Statistics& s, bool range) {
    if (truth_.out[Role::y].empty()) return;  // none, or not wanted
    if (!group.finite && problem_.phase == Phase::forward_training) return;
    const GroupTruth& exact = truth_.groups[static_cast<std::size_t>(q)];
    const bool plus_one = problem_.gamma && problem_.convention.gamma == GammaOffset::plus_one;
    // Roundings of the product of three factors, the last of which may be 1+w; centred: of d^ as well, folded: of a
    // alone. Then those of the sum with β and of the conversion to float32.
    const bool centred = claim_.form == AffineForm::centred;
    const double products = (centred ? 1 : 0) + (problem_.gamma ? 1 : 0) + (plus_one ? 1 : 0);
    const double theta = compound({centred ? s.difference_roundoff : 0, gamma_factor(products, u_s)});
    const double last = compound({problem_.beta || !centred ? u_s : 0, to_float32});
    const double delta = s.mean_error;
    // Systematic sums of the levels, over γ as the kernel uses it.
    double row_scale = 0, gain_square = 0, gamma_square = 0, gamma_gain = 0, gamma_deviation = 0, gamma_sum = 0,
           rounding_gain = 0, rounding_sum = 0;
    double along_deviation = 0, along_gamma = 0, along_rounding = 0, along_square = 0;
    bool level_judged = range && std::isfinite(s.rstd_error) && group.n > 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const double weight = gamma_in_use(problem_, inputs_, row_, at);
      const double beta = beta_in_use(problem_, inputs_, row_, at);
      const auto x = static_cast<double>(inputs_[Role::x][index]);
      const double d = minus(x, exact.mean);
      const double product = weight * (d * group.rstd);
      if (!std::isfinite(x) || !std::isfinite(weight) || !std::isfinite(beta)) {
        level_judged = false;
        return;
      }
      if (s.nan) {
        set(Role::y, index, 0, 0x1p-126, range);
        level_judged = false;
        return;
      }
      const double w = std::fabs(weight);
      const double y = std::fabs(truth_.out[Role::y][index].hi);
      const double reach = std::fabs(d) + delta;                   // |d^| before its rounding
      const double scaled = std::fabs(d) * s.rstd.high + s.shift;  // |d^ r^| before theirs
      const double a = w * s.rstd.high;
      double rounding = w * scaled * theta;
      if (!centred) {
        const double hat = a * (1 + theta) + eta_s;
        const double mean_hat = row_.centred ? w * (std::fabs(group.mean) * s.rstd.high + s.shift) * (1 + theta) +
                                                   (std::fabs(group.mean) + delta) * eta_s
                                             : 0;
        const double offset = row_.centred && problem_.beta ? mean_hat * (1 + u_s) + std::fabs(beta) : 0;
        rounding += u_s * (std::fabs(x) * hat + mean_hat + offset);
      }
      // Underflow of d r, r γ, d γ (or m a, x a, b), of the difference itself, and subnormal x or γ read as 0.
      const double unread = flushed ? (a + s.rstd.high * reach) * (eta_s + zeta) : 0;
      rounding += eta_s * (w + reach + s.rstd.high + 3) + unread + eta_out;
      const double systematic = w * (std::fabs(d) * s.rstd_error + s.shift);
      const double before = systematic + rounding;
      const double final_rounding = last * (y + before) + zeta;
      // No intermediate overflows, in whatever order the three factors are multiplied.
      const double far = std::fabs(group.mean) + delta + std::fabs(x);
      const bool fits = a < 0x1p127 && far < 0x1p127 && a * far + std::fabs(beta) < 0x1p127 && w * reach < 0x1p127 &&
                        s.rstd.high * reach < 0x1p127;
      set(Role::y, index, (before + final_rounding) * slack_, 0, range && fits && std::isfinite(s.rstd_error));
      level_judged = level_judged && bounds_.tolerance[Role::y][index] < infinity;
      row_scale = std::max(row_scale, std::fabs(product) + std::fabs(beta));
      const double rho = rounding + final_rounding;
      gain_square += product * product;
      gamma_square += weight * weight;
      gamma_gain += weight * product;
      gamma_deviation += weight * d;
      gamma_sum += weight;
      rounding_gain += rho * std::fabs(product);
      rounding_sum += rho;
      if (cotangent_ == nullptr) return;
      const double c = static_cast<double>((*cotangent_)[index]) * weight;
      along_deviation += c * d;
      along_gamma += c;
      along_square += c * c;
      along_rounding += std::fabs(static_cast<double>((*cotangent_)[index])) * rho;
    });
    groups_.for_each(q, [&](std::int64_t i, const Shape&) {
      bounds_.scale[Role::y][static_cast<std::size_t>(i)] = std::max(row_scale, 0x1p-126);
    });
    if (!level_judged) return;
    // The signed sums are rounded in double: at most (n+8) 2^-52 of the sums of their moduli (8 for the terms
    // themselves), each of which is at most a product of two norms (Cauchy-Schwarz).
    const double n = static_cast<double>(group.n);
    if (cotangent_ != nullptr) {
      const double doubt = (n + 8) * 0x1p-52 * std::sqrt(along_square);
      bounds_.along[static_cast<std::size_t>(q)] =
          ((std::fabs(along_deviation) + doubt * std::sqrt(group.deviations)) * s.rstd_error +
           (std::fabs(along_gamma) + doubt * std::sqrt(n)) * s.shift + along_rounding) *
          slack_;
    }
    if (gain_square == 0) return;
    const double doubt = (n + 8) * 0x1p-52 * std::sqrt(gamma_square);
    const double gamma_gain_bound = std::fabs(gamma_gain) + doubt * std::sqrt(gain_square);
    const double gamma_deviation_bound = std::fabs(gamma_deviation) + doubt * std::sqrt(group.deviations);
    const double gamma_sum_bound = std::fabs(gamma_sum) + doubt * std::sqrt(n);
    auto& levels = bounds_.levels[static_cast<std::size_t>(q)];
    levels.gain_bound =
        (s.rstd_error / std::fabs(group.rstd) + (s.shift * gamma_gain_bound + rounding_gain) / gain_square) * slack_;
    levels.offset_bound =
        (gamma_deviation_bound * s.rstd_error + s.shift * gamma_sum_bound + rounding_sum) / n * slack_;
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
      // Zero, or 0/0: NaN is then demanded by the truth.
      batch.variance_error += normalizes_n_minus_1 ? s.single_error : s.variance_error;
      return;
    }
    const double normalizing = normalizes_n_minus_1 ? n - 1 : n;
    const double stored = stored_n_minus_1 ? n - 1 : n;
    const double ratio = normalizing / stored;
    const double variance = group.variance * ratio;
    // v^ n/(n-1): the factor and the product have a rounding each, in float32 at worst, and two more where n and n-1
    // are rounded; none if the divisors agree. (A kernel that divides the sum of squares anew has no more than these.)
    const double t = ratio == 1 ? 0 : gamma_factor(n > 0x1p24 ? 4 : 2, unit_float32);
    batch.variance += variance;
    batch.variance_error += s.variance_error * ratio * (1 + t) + variance * t + 2 * std::max(eta_s, eta_out);
  }

  // A step is keep*old + take*batch or old + take*(batch-old), in the statistics type, with weights that may be rounded
  // to float32 and a last rounding into float32: with K = (1+u)(1+u_s)³(1+u) - 1 either way errs by at most
  // K (|keep| + |take|)(|old| + |batch| + e) + take e. An average over N groups adds its sum and three roundings,
  // before the update or (when each sample's state is updated and then averaged) after it.
  // Underflow: η for two products, a sum and a conversion, and for the sum, quotient and conversion of an average; old,
  // batch or a weight read as 0. Where old + Σ|batch| is large the differences and sums could overflow.
  void judge_state() {
    const auto weights = update_weights(problem_.convention.momentum, problem_.momentum, problem_.step);
    const double both = std::fabs(weights.keep) + std::fabs(weights.take);
    const bool updates = updates_state(groups_.size()) && groups_.count() > 0;
    for (std::size_t c = 0; c < batch_.size(); ++c) {
      const Batch& batch = batch_[c];
      const double count = std::max<double>(1, static_cast<double>(batch.groups));
      double k = compound({gamma_factor(2, unit_float32), gamma_factor(3, u_s)});
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
                             2 * parameter_roundoff() * (old + b + e) + 8 * eta_out + zeta * (2 + old + b + e);
        set(role, c, kept ? 0 : total * slack_, old + b, kept || (batch.judged && old + modulus + error < 0x1p127));
      };
      judge(Role::running_mean, batch.mean, batch.mean_error);
      judge(Role::running_var, batch.variance, batch.variance_error);
      if (keeps_variance(problem_.convention, groups_.size())) set(Role::running_var, c, 0, 0x1p-126, true);
    }
    if (!truth_.out[Role::running_weight].empty()) {
      const double value = truth_.out[Role::running_weight][0].hi;
      const double terms = std::fabs(problem_.momentum * static_cast<double>(inputs_[Role::running_weight][0])) + 1;
      const double total =
          terms * compound({gamma_factor(2, unit_float32), parameter_roundoff()}) + 2 * eta_out + zeta * (1 + terms);
      set(Role::running_weight, 0, updates ? total * slack_ : 0, value, true);
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Truth& truth_;
  const Claim& claim_;
  const std::vector<float>* cotangent_;
  const VariantRow& row_;
  Groups groups_;
  double slack_ = 1;
  std::vector<Batch> batch_;
  Bounds bounds_;
};

}  // namespace

Bounds forward_bounds(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim) {
  if (problem.phase == Phase::merge_statistics) return merge_bounds(problem, inputs, truth, claim);
  if (problem.phase == Phase::double_backward) return double_backward_bounds(problem, inputs, truth, claim);
  if (problem.phase == Phase::statistics) {
    const Problem training = training_of(problem);
    return Forward(training, inputs, truth, claim).run();
  }
  return Forward(problem, inputs, truth, claim).run();
}

Bounds forward_bounds_along(const Problem& problem, const Inputs& inputs, const Truth& truth, const Claim& claim,
                            const std::vector<float>& cotangent) {
  return Forward(problem, inputs, truth, claim, &cotangent).run();
}

}  // namespace normgate
