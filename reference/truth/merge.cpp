// The union of parts at 100 digits:
//
//   n = Σ n_p, mean = Σ n_p m_p / n, variance = Σ n_p (v_p + (m_p - mean)²) / n; rows without a mean: Σ n_p v_p / n.
//
// T has p = 334 bits, w = 2^-p. n_p are integers up to 2^24 and n up to 2^52 (check()), m_p and v_p multiples of 2^-149
// below 2^128. So Σ n_p m_p and n m_p - Σ n_p m_p, multiples of 2^-149 below 2^181, are exact (330 bits); m_p - mean is
// that difference over n and has relative error w, its square 3w, v_p + (m_p - mean)² at most 4w and times n_p 5w where
// v_p >= 0; a sum of at most 2^28 such terms, all >= 0, (2^28 + 5) w < 2^-305. The mean has one rounding, the quotient.
// leave() covers both. A variance that is negative is no variance: what then follows has terms of both signs, and the
// sum of their moduli is left with it.
#include "reference/truth/merge.hpp"

#include "reference/problem/groups.hpp"
#include "reference/truth/definition-inl.h"
#include "reference/truth/hundred_digits-inl.h"

namespace normgate {

Truth merged_statistics(const Problem& problem, const Inputs& inputs) {
  using namespace hundred_digits;
  const VariantRow& row = row_of(problem.variant);
  const Groups groups(problem.shape, row);
  const auto count = static_cast<std::size_t>(groups.count());
  Truth truth;
  if (row.centred) truth.out[Role::mean].resize(count);
  truth.out[Role::stat].resize(count);
  truth.groups.resize(count);
  const std::vector<float>& counts = inputs[Role::part_count];
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    struct Part {
      T n, mean, variance;
    };
    std::vector<Part> parts;
    std::size_t p = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const float n = counts[p++];
      if (n == 0) return;
      const auto at = static_cast<std::size_t>(i);
      parts.push_back({T(n), row.centred ? T(inputs[Role::part_mean][at]) : T(0), T(inputs[Role::part_stat][at])});
    });
    T n(0), sum(0);
    for (const Part& part : parts) {
      n += part.n;
      sum += T(part.n * part.mean);
    }
    T squares(0);
    double terms = 0;
    for (const Part& part : parts) {
      const T difference = row.centred ? T((n * part.mean - sum) / n) : T(0);
      squares += T(part.n * T(part.variance + T(difference * difference)));
      terms += magnitude(part.n) * (magnitude(part.variance) + magnitude(difference) * magnitude(difference));
    }
    const T mean = sum / n;
    const T variance = squares / n;
    const T rstd = reciprocal_deviation(variance, T(problem.eps), problem.convention.eps);
    GroupTruth& group = truth.groups[static_cast<std::size_t>(q)];
    group = {leave(mean), leave(variance, terms / magnitude(n)), leave(rstd)};
    if (row.centred) truth.out[Role::mean][static_cast<std::size_t>(q)] = group.mean;
    truth.out[Role::stat][static_cast<std::size_t>(q)] = group.variance;
  }
  return truth;
}

}  // namespace normgate
