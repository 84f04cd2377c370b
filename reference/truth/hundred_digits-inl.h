// What the phases share that are evaluated at 100 digits: the scalar type, how a value leaves, the affine parameters
// and the statistics that a phase is given. To be included by .cpp files of reference/truth only.
//
// T has a precision of p = 334 bits and an exponent range that nothing here leaves; w = 2^-p is its unit roundoff.
// Inputs are float32 (multiples of 2^-149 below 2^128); eps is 0 or a double in [2^-126, 2^126], a multiple of 2^-178.
#pragma once

#include <boost/multiprecision/eigen.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <limits>
#include <vector>

#include "reference/problem/data.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/definition-inl.h"
#include "reference/truth/forward.hpp"

namespace normgate::hundred_digits {

using T =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<100, boost::multiprecision::allocate_stack>,
                                  boost::multiprecision::et_off>;

// `terms` bounds the sum of the moduli of the terms that v is a sum of. hi = RN(v), lo = RN(v - hi): |v - hi - lo| <=
// 2^-53 |lo| <= 2^-106 |hi|, as v - hi is exact in 334 bits; what is left is for the error of v itself.
inline Exact leave(const T& v, double terms) {
  Exact result;
  result.hi = static_cast<double>(v);
  if (!std::isfinite(result.hi)) return result;
  result.lo = static_cast<double>(T(v - T(result.hi)));
  result.bound = 0x1p-105 * std::fabs(result.hi) + 0x1p-255 * terms + (v == 0 && terms == 0 ? 0 : 0x1p-1073);
  return result;
}
inline Exact leave(const T& v) { return leave(v, std::fabs(static_cast<double>(v))); }

inline double magnitude(const T& v) { return std::fabs(static_cast<double>(v)); }

inline T not_a_number() { return T(std::numeric_limits<double>::quiet_NaN()); }

// gamma as it is used (w or 1 + w; 1 where absent) and beta (0 where absent or not read), by channel; and their moduli.
struct Affine {
  std::vector<T> gamma;
  std::vector<T> beta;
  std::vector<double> gamma_magnitude;
  std::vector<double> beta_magnitude;
};

inline Affine affine_of(const Problem& problem, const Inputs& inputs) {
  const VariantRow& row = row_of(problem.variant);
  const auto channels = static_cast<std::size_t>(element_count(restricted(problem.shape, row.affine)));
  const bool beta = use_of(problem, Role::beta).read;
  Affine affine;
  affine.gamma.assign(channels, T(1));
  affine.beta.assign(channels, T(0));
  for (std::size_t c = 0; c < channels; ++c) {
    if (problem.gamma) {
      affine.gamma[c] = T(inputs[Role::gamma][c]);
      if (problem.convention.gamma == GammaOffset::plus_one) affine.gamma[c] += T(1);
    }
    if (beta) affine.beta[c] = T(inputs[Role::beta][c]);
    affine.gamma_magnitude.push_back(magnitude(affine.gamma[c]));
    affine.beta_magnitude.push_back(magnitude(affine.beta[c]));
  }
  return affine;
}

// x of group q, in the order of Groups::for_each.
inline Values<T> values_of(const std::vector<float>& x, const Groups& groups, std::int64_t q) {
  Values<T> values(groups.size());
  Eigen::Index p = 0;
  groups.for_each(q, [&](std::int64_t i, const Shape&) { values[p++] = T(x[static_cast<std::size_t>(i)]); });
  return values;
}

// The statistics of x in group q; those of an empty group are NaN.
inline GroupStatistics<T> own_statistics(const Problem& problem, const std::vector<float>& x, const Groups& groups,
                                         std::int64_t q) {
  if (groups.size() == 0) {
    GroupStatistics<T> empty;
    empty.mean = empty.variance = empty.rstd = not_a_number();
    return empty;
  }
  return statistics_of(values_of(x, groups, q), row_of(problem.variant).centred, T(problem.eps), problem.convention);
}

// The statistics that group q is given or handed; a variance that is not given is NaN, a mean that the row lacks 0.
inline GroupStatistics<T> given_statistics(const Problem& problem, const Inputs& inputs, const Groups& groups,
                                           std::int64_t q) {
  const VariantRow& row = row_of(problem.variant);
  const Convention& convention = problem.convention;
  const T eps(problem.eps);
  GroupStatistics<T> result;
  if (problem.given == Given::running) {
    const auto c = static_cast<std::size_t>(dense_index(problem.shape, row.running, groups.origin(q)));
    T weight(1);
    const bool accumulated = convention.momentum == MomentumForm::accumulated_weight;
    if (accumulated) weight = T(inputs[Role::running_weight][0]);
    if (accumulated && weight == 0) {
      result.mean = result.variance = T(0);  // Caffe: nothing accumulated yet counts as statistics of 0
    } else {
      result.mean = T(inputs[Role::running_mean][c]) / weight;
      result.variance = T(inputs[Role::running_var][c]) / weight;
    }
    result.rstd = reciprocal_deviation(result.variance, eps, convention.eps);
    return result;
  }
  const auto at = static_cast<std::size_t>(q);
  if (row.centred && !problem.from_output) result.mean = T(inputs[Role::mean][at]);
  const T stat(inputs[Role::stat][at]);
  if (convention.saved == SavedStatistic::rstd) {
    result.variance = not_a_number();
    result.rstd = stat;
  } else {
    result.variance = stat;
    result.rstd = reciprocal_deviation(stat, eps, convention.eps);
  }
  return result;
}

}  // namespace normgate::hundred_digits
