// The definition of the five normalizations, backward, for any scalar type T with + - * / sqrt: the derivative of
// definition-inl.h, and what a kernel computes that takes rounded statistics for the true ones. To be included by .cpp
// files of reference/truth and gate/bench only.
//
// With g = dy gamma, x^ = (x - mean) r, r = 1/D(v), v = sum (x - mean)² / N_v, the outputs x^_i of a group depend on
// x_j through x_i itself, through the mean (dmean/dx_j = 1/n) and through v (dv/dx_j = 2 (x_j - mean) / N_v: the mean's
// part vanishes in it as the deviations sum to 0). So
//
//   dx_j = sum_i g_i dx^_i/dx_j = r (g_j - sum(g)/n) + 2 r'(v) (x_j - mean) sum(g (x - mean)) / N_v
//        = r (g_j - sum(g)/n) - s x^_j sum(g x^) / N_v,                    s = -2 r'(v) / r².
//
// Rows that are not centred lack sum(g)/n. In inference the statistics are constants: dx = g r.
#pragma once

#include "reference/truth/definition-inl.h"

namespace normgate {

// s: r for D = sqrt(v + eps); 1/sqrt(v) for D = sqrt(v) + eps, where the term is 0 at the kink v = 0; for D =
// sqrt(max(v, eps)) r above the kink v = eps, and 0 up to it.
template <typename T>
T response(const T& variance, const T& rstd, EpsPlacement placement, bool above_eps) {
  using std::sqrt;
  switch (placement) {
    case EpsPlacement::outside:
      return variance == 0 ? T(0) : T(T(1) / sqrt(variance));
    case EpsPlacement::floor:
      return above_eps ? rstd : T(0);
    case EpsPlacement::inside:
      break;
  }
  return rstd;
}

// s where r is all that is known: sqrt(v) = 1/r - eps, and v > eps means 1/r² > eps.
template <typename T>
T response_to_reciprocal(const T& rstd, const T& eps, EpsPlacement placement) {
  switch (placement) {
    case EpsPlacement::outside: {
      const T remainder = T(1) - rstd * eps;
      return remainder == 0 ? T(0) : T(rstd / remainder);
    }
    case EpsPlacement::floor:
      return T(1) > eps * (rstd * rstd) ? rstd : T(0);
    case EpsPlacement::inside:
      break;
  }
  return rstd;
}

// What all elements of a group share.
template <typename T>
struct GradientScalars {
  T rstd = T(0);
  T mean_of_g = T(0);  // 0 for rows that are not centred
  T pull = T(0);       // s sum(g x^) / N_v
};

// dx of one element in training. `direction` is x^, or x^ minus its mean over the group in the textbook's form: through
// the gradients of variance and mean,
//
//   dvar = -s r sum(g x^) / 2,   dmean = -r sum(g) - 2 dvar sum(x - m) / N_v,   dx = g r + 2 dvar (x - m) / N_v + dmean
//   / n,
//
// which is another function where m is not exactly the mean.
template <typename T>
T input_gradient(const T& g, const T& direction, const GradientScalars<T>& group) {
  const T from_sums = group.pull * direction;
  return group.rstd * (g - group.mean_of_g) - from_sums;
}

}  // namespace normgate
