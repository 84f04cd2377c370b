// The forward phases at 100 digits, and the proof of the bounds that the values leave with.
//
// T has p = 334 bits, w = 2^-p; inputs and eps are as hundred_digits-inl.h says.
//
//  (1) Exact in 334 bits, whatever the order: sums of up to 2^50 inputs, n x and n x - sum (multiples of 2^-149 below
//      2^179: 328 bits), 1 + gamma, and variance + eps of a given variance (multiples of 2^-178 below 2^129: 307 bits).
//  (2) So x - mean has relative error w; its square 4w; a sum of n <= 2^40 squares, all >= 0, (n+4)w; variance
//      2^41 w; 1/D, whose terms are all >= 0, and gamma (x - mean) / D less than 2^42 w <= 2^-292.
//  (3) y = P + beta: |error| <= 2^-291 (|P| + |beta|).
//  (4) Given statistics: x - mean has two terms, |error| <= 2w (|x| + |mean|) (a mean over an accumulated weight has
//      been divided once), times |gamma|/D in y. A variance over an accumulated weight W has been divided too, and
//      where it is negative the sum with eps cancels: v/W + eps = (v + W eps)/W, whose numerator is 0 or at least 2^-77
//      W eps, as v, W and eps are multiples of units 2^-24, 2^-24 and 2^-53 of themselves. So 1/D has relative error
//      2^78 w = 2^-256 at worst; else it is exact but for its own roundings, by (1).
//  (5) A running statistic is keep*old + take*batch: |error| <= 2^-291 (|keep*old| + |take*batch|); an average of
//      N <= 2^40 means has error below 2^-291 times the average of the moduli.
//  (6) Exact: hi = RN(v), lo = RN(v - hi): |v - hi - lo| <= 2^-53 |lo| <= 2^-106 |hi|; v - hi is exact in 334 bits.
//      Other values lie between 2^-750 and 2^550 or are 0 (the ends are those of a weight of 2^-149 or 2^128), so
//      doubles do not overflow; only a step with a weight (a double momentum) near 0 leaves the range where lo and the
//      bound are normal numbers, and errs by less than 2^-1073 there.
//
// leave() uses 2^-105 |hi| + 2^-255 terms + 2^-1073, which covers all of them; an exact 0 without terms has no error.
#include "reference/truth/forward.hpp"

#include <boost/multiprecision/eigen.hpp>

#include "reference/truth/hundred_digits-inl.h"
#include "reference/truth/merge.hpp"
#include "reference/truth/parameters-inl.h"
#include "reference/truth/running.hpp"
#include "reference/truth/second_order.hpp"
#include "reference/truth/tiers/fast.hpp"

namespace normgate {
namespace {

using namespace hundred_digits;

class Forward {
 public:
  Forward(const Problem& problem, const Inputs& inputs, Wanted wanted)
      : problem_(problem),
        inputs_(inputs),
        wanted_(wanted),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        momentum_(problem.momentum),
        affine_(affine_of<T>(problem, inputs)),
        gamma_magnitude_(magnitudes(affine_.gamma)),
        beta_magnitude_(magnitudes(affine_.beta)) {}

  Truth training() {
    allocate();
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      const auto group = own_statistics(problem_, values_of<T>(inputs_[Role::x], groups_, q));
      leave_statistics(q, group.mean, group.variance, group.rstd);
      if (problem_.running) take_in(q, group);
      if (wanted_ == Wanted::statistics) continue;
      Eigen::Index p = 0;
      groups_.for_each(q,
                       [&](std::int64_t i, const Shape& at) { leave_y(i, at, group.centred[p++], 0.0, group.rstd); });
    }
    if (problem_.running) update_state();
    return std::move(truth_);
  }

  Truth inference() {
    allocate();
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      const auto given = given_statistics<T>(problem_, inputs_, groups_, q);
      leave_statistics(q, given.mean, given.variance, given.rstd);
      if (wanted_ == Wanted::statistics) continue;
      groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
        const T x(inputs_[Role::x][static_cast<std::size_t>(i)]);
        const T centred = row_.centred ? T(x - given.mean) : x;
        leave_y(i, at, centred, row_.centred ? magnitude(x) + magnitude(given.mean) : 0.0, given.rstd);
      });
    }
    return std::move(truth_);
  }

 private:
  void allocate() {
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (role == Role::y && wanted_ == Wanted::statistics) continue;
      if (use_of(problem_, role).write)
        truth_.out[role].resize(
            static_cast<std::size_t>(element_count(restricted(problem_.shape, axes_of(role, row_)))));
    }
    truth_.groups.resize(static_cast<std::size_t>(groups_.count()));
    if (problem_.running) {
      const auto statistics = static_cast<std::size_t>(element_count(restricted(problem_.shape, row_.running)));
      batch_mean_.assign(statistics, T(0));
      batch_variance_.assign(statistics, T(0));
      batch_mean_terms_.assign(statistics, 0.0);
      batch_count_.assign(statistics, 0);
    }
  }

  void leave_statistics(std::int64_t q, const T& mean, const T& variance, const T& rstd) {
    const auto at = static_cast<std::size_t>(q);
    truth_.groups[at] = {leave(mean), leave(variance), leave(rstd)};
    if (!truth_.out[Role::mean].empty()) truth_.out[Role::mean][at] = truth_.groups[at].mean;
    if (!truth_.out[Role::stat].empty())
      truth_.out[Role::stat][at] =
          problem_.convention.saved == SavedStatistic::rstd ? truth_.groups[at].rstd : truth_.groups[at].variance;
  }

  // `centred_terms` bounds |x| + |mean| where the difference has an absolute error (point 4).
  void leave_y(std::int64_t i, const Shape& at, const T& centred, double centred_terms, const T& rstd) {
    const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
    const T y = affine(centred, rstd, affine_.gamma[c], affine_.beta[c]);
    // |P| + |beta| <= |y| + 2 |beta|, and an addition of magnitudes in double is far cheaper than P at 100 digits.
    const double terms = 2 * (std::fabs(static_cast<double>(y)) + beta_magnitude_[c]) +
                         (centred_terms > 0 ? gamma_magnitude_[c] * centred_terms * magnitude(rstd) : 0.0);
    truth_.out[Role::y][static_cast<std::size_t>(i)] = leave(y, terms);
  }

  // Adds one group to the batch statistics of its channel: the only one for batch_norm, one of N for instance_norm
  // (whose running statistics are averages over the samples).
  void take_in(std::int64_t q, const GroupStatistics<T>& group) {
    if (!updates_state(groups_.size())) return;
    const auto c = static_cast<std::size_t>(dense_index(problem_.shape, row_.running, groups_.origin(q)));
    batch_mean_[c] += group.mean;
    batch_mean_terms_[c] += magnitude(group.mean);
    batch_variance_[c] +=
        over_divisor(group.sum_of_squares, groups_.size(), problem_.convention.stored == StoredDivisor::n_minus_1,
                     problem_.convention.single);
    ++batch_count_[c];
  }

  void update_state() {
    const auto weights = update_weights(problem_.convention.momentum, momentum_, problem_.step);
    const bool any = updates_state(groups_.size()) && groups_.count() > 0;
    const auto step = [&](Role role, std::size_t c, const T& batch, double batch_terms, bool keep) {
      const T old(inputs_[role][c]);
      if (keep) {
        truth_.out[role][c] = leave(old);
        return;
      }
      truth_.out[role][c] = leave(weights.keep * old + weights.take * batch,
                                  magnitude(weights.keep * old) + magnitude(weights.take) * batch_terms);
    };
    for (std::size_t c = 0; c < batch_mean_.size(); ++c) {
      const T count(batch_count_[c] == 0 ? 1 : batch_count_[c]);
      const bool keep = !any || batch_count_[c] == 0;
      step(Role::running_mean, c, batch_mean_[c] / count, batch_mean_terms_[c], keep);
      const T variance = batch_variance_[c] / count;
      step(Role::running_var, c, variance, magnitude(variance),
           keep || keeps_variance(problem_.convention, groups_.size()));
    }
    if (!truth_.out[Role::running_weight].empty()) {
      const T old(inputs_[Role::running_weight][0]);
      truth_.out[Role::running_weight][0] = any ? leave(momentum_ * old + T(1)) : leave(old);
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  Wanted wanted_;
  const VariantRow& row_;
  Groups groups_;
  T momentum_;
  Affine<T> affine_;
  std::vector<double> gamma_magnitude_;
  std::vector<double> beta_magnitude_;
  std::vector<T> batch_mean_;
  std::vector<T> batch_variance_;
  std::vector<double> batch_mean_terms_;
  std::vector<std::int64_t> batch_count_;
  Truth truth_;
};

}  // namespace

Truth definition_forward(const Problem& problem, const Inputs& inputs, Wanted wanted) {
  if (problem.phase == Phase::merge_statistics) return merged_statistics(problem, inputs);
  if (problem.phase == Phase::double_backward) return second_order(problem, inputs);
  if (problem.phase == Phase::statistics) return definition_forward(training_of(problem), inputs, Wanted::statistics);
  Forward forward(problem, inputs, wanted);
  return problem.phase == Phase::forward_training ? forward.training() : forward.inference();
}

Truth forward_truth(const Problem& problem, const Inputs& inputs, Wanted wanted) {
  if (problem.phase == Phase::merge_statistics) return merged_statistics(problem, inputs);
  if (problem.phase == Phase::double_backward) return second_order(problem, inputs);
  if (problem.phase == Phase::statistics) return forward_truth(training_of(problem), inputs, Wanted::statistics);
  if (auto truth = tiers::fast_forward(problem, inputs, wanted)) return *std::move(truth);
  return definition_forward(problem, inputs, wanted);
}

}  // namespace normgate
