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

// Of the contiguous, finite x of a training phase. Nothing where the definition has no finite D > 0, or the
// certificate is too weak to tell, or n = 1 under n-1 is not a number.
[[nodiscard]] std::optional<Statistics> statistics_of(const float* x, std::int64_t n, bool centred, double eps,
                                                      const Convention& convention);

// Of a given mean and variance, or a given mean and reciprocal; all finite. Nothing for a negative variance, or D =
// 0.
[[nodiscard]] std::optional<Statistics> statistics_given(const Certified& mean, const Certified& variance, double eps,
                                                         EpsPlacement placement);
[[nodiscard]] Statistics statistics_given_reciprocal(const Certified& mean, float rstd);

// -2 (dr/dv), which is r² times the definition's response s: r³ for eps inside the root; r²/sqrt(v) outside, 0
// where v = 0; r³ above the floor and 0 up to it. Nothing where the certificate does not tell which.
[[nodiscard]] std::optional<Certified> slope(const Statistics& statistics, double eps, EpsPlacement placement);
// The definition's response s = slope / r², of a given variance, or where the reciprocal is all that is known (and
// exact).
[[nodiscard]] std::optional<Certified> response(const Statistics& statistics, double eps, EpsPlacement placement);

}  // namespace normgate::tiers
