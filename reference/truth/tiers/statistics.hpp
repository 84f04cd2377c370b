// The statistics of one group in double-double, in every convention, with certificates: of its own values, and as
// given.
#pragma once

#include <optional>

#include "reference/problem/convention.hpp"
#include "reference/truth/tiers/scalars.hpp"

namespace normgate::tiers {

struct Statistics {
  Certified mean;            // 0 where the row is not centred
  Certified sum_of_squares;  // of x - mean; not of given statistics
  Certified variance;        // the normalizing one; hi is NaN where a reciprocal is given
  Certified rstd;            // 1/D
};

// Of the contiguous x of a training phase. Where the definition gives no finite number (a value that is not finite, n =
// 1 under n-1, D = 0) that is what stands here, without an error. Nothing where the certificate is too weak to tell.
[[nodiscard]] std::optional<Statistics> statistics_of(const float* x, std::int64_t n, bool centred, double eps,
                                                      const Convention& convention);

// Of a given mean and variance, or a given mean and reciprocal, finite or not. Nothing where a negative variance is not
// known exactly.
[[nodiscard]] std::optional<Statistics> statistics_given(const Certified& mean, const Certified& variance, double eps,
                                                         EpsPlacement placement);
[[nodiscard]] Statistics statistics_given_reciprocal(const Certified& mean, float rstd);

// Whether x^ is a finite number for every finite x.
[[nodiscard]] inline bool is_ordinary(const Statistics& statistics) {
  return std::isfinite(statistics.mean.hi) && std::isfinite(statistics.rstd.hi);
}

// -2 (dr/dv), which is r² times the definition's response s: r³ for eps inside the root; r²/sqrt(v) outside, 0
// where v = 0; r³ above the floor and 0 up to it. Nothing where the certificate does not tell which.
[[nodiscard]] std::optional<Certified> slope(const Statistics& statistics, double eps, EpsPlacement placement);
// The definition's response s = slope / r², of a given variance, or where the reciprocal is all that is known (and
// exact).
[[nodiscard]] std::optional<Certified> response(const Statistics& statistics, double eps, EpsPlacement placement);

}  // namespace normgate::tiers
