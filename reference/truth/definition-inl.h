// The definition of the five normalizations, forward, as the papers state it, for any scalar type T with + - * / sqrt.
//
//   batch_norm     Ioffe & Szegedy 2015        layer_norm  Ba, Kiros & Hinton 2016     group_norm  Wu & He 2018
//   instance_norm  Ulyanov et al. 2016         rms_norm    Zhang & Sennrich 2019
//
// A difference between the five is a column of the variant table, so one text serves all. To be included by .cpp files
// of reference/truth and gate/bench only.
#pragma once

#include <Eigen/Core>

#include "reference/problem/convention.hpp"

namespace normgate {

template <typename T>
using Values = Eigen::Array<T, Eigen::Dynamic, 1>;

// 1/D: D = sqrt(v + eps), sqrt(v) + eps or sqrt(max(v, eps)).
template <typename T>
T reciprocal_deviation(const T& variance, const T& eps, EpsPlacement placement) {
  using std::sqrt;
  switch (placement) {
    case EpsPlacement::outside:
      return T(1) / (sqrt(variance) + eps);
    case EpsPlacement::floor:
      return T(1) / sqrt(variance < eps ? eps : variance);
    case EpsPlacement::inside:
      break;
  }
  return T(1) / sqrt(variance + eps);
}

// Sum of squares over a divisor. A single value under n-1 is 0/0, or 0 where the convention says so.
template <typename T>
T over_divisor(const T& sum_of_squares, std::int64_t n, bool n_minus_1, SingleCount single) {
  if (n_minus_1 && n == 1 && single != SingleCount::nan) return T(0);
  return sum_of_squares / T(n_minus_1 ? n - 1 : n);
}

template <typename T>
struct GroupStatistics {
  T mean = T(0);
  Values<T> centred;        // x - mean
  T sum_of_squares = T(0);  // of centred
  T variance = T(0);
  T rstd = T(0);
};

// The statistics of one group of a training phase. x - mean is written (n x - sum) / n: for float32 x the numerator is
// exact in 334 bits, so that the difference has one rounding however large the mean is.
template <typename T>
GroupStatistics<T> statistics_of(const Values<T>& x, bool centred_row, const T& eps, const Convention& convention) {
  const std::int64_t n = x.size();
  GroupStatistics<T> result;
  if (centred_row) {
    const T sum = x.sum();
    result.mean = sum / T(n);
    result.centred = x.unaryExpr([&](const T& value) { return T((value * n - sum) / n); });
  } else {
    result.centred = x;
  }
  result.sum_of_squares = result.centred.square().sum();
  const bool n_minus_1 = centred_row && convention.normalizing == NormalizingDivisor::n_minus_1;
  result.variance = over_divisor(result.sum_of_squares, n, n_minus_1, convention.single);
  result.rstd = reciprocal_deviation(result.variance, eps, convention.eps);
  return result;
}

// y = gamma (x - mean) / D + beta, with 1 + gamma where the convention says so.
template <typename T>
T affine(const T& centred, const T& rstd, const T& gamma, const T& beta) {
  return gamma * (centred * rstd) + beta;
}

}  // namespace normgate
