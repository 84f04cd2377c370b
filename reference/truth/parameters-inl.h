// What the definition is evaluated on: affine parameters, values of a group, statistics of its own or given, for any
// scalar type T. To be included by .cpp files of reference/truth and gate/bench only.
#pragma once

#include <limits>
#include <vector>

#include "reference/problem/data.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/definition-inl.h"

namespace normgate {

template <typename T>
T not_a_number() {
  return T(std::numeric_limits<double>::quiet_NaN());
}

// By channel: gamma as it is used (w or 1 + w; 1 where absent), and beta (0 where absent or not read).
template <typename T>
struct Affine {
  std::vector<T> gamma;
  std::vector<T> beta;
};

template <typename T>
Affine<T> affine_of(const Problem& problem, const Inputs& inputs) {
  const VariantRow& row = row_of(problem.variant);
  const auto channels = static_cast<std::size_t>(element_count(restricted(problem.shape, row.affine)));
  const bool beta = use_of(problem, Role::beta).read;
  Affine<T> affine;
  affine.gamma.assign(channels, T(1));
  affine.beta.assign(channels, T(0));
  for (std::size_t c = 0; c < channels; ++c) {
    if (problem.gamma) {
      affine.gamma[c] = T(inputs[Role::gamma][c]);
      if (problem.convention.gamma == GammaOffset::plus_one) affine.gamma[c] += T(1);
    }
    if (beta) affine.beta[c] = T(inputs[Role::beta][c]);
  }
  return affine;
}

// x of group q, in the order of Groups::for_each.
template <typename T>
Values<T> values_of(const std::vector<float>& x, const Groups& groups, std::int64_t q) {
  Values<T> values(groups.size());
  Eigen::Index p = 0;
  groups.for_each(q, [&](std::int64_t i, const Shape&) { values[p++] = T(x[static_cast<std::size_t>(i)]); });
  return values;
}

// The statistics of a group's own values; those of an empty group are NaN.
template <typename T>
GroupStatistics<T> own_statistics(const Problem& problem, const Values<T>& x) {
  if (x.size() == 0) {
    GroupStatistics<T> empty;
    empty.mean = empty.variance = empty.rstd = not_a_number<T>();
    return empty;
  }
  return statistics_of(x, row_of(problem.variant).centred, T(problem.eps), problem.convention);
}

// The statistics that group q is given or handed; a variance that is not given is NaN, a mean that is not 0.
template <typename T>
GroupStatistics<T> given_statistics(const Problem& problem, const Inputs& inputs, const Groups& groups,
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
    result.variance = not_a_number<T>();
    result.rstd = stat;
  } else {
    result.variance = stat;
    result.rstd = reciprocal_deviation(stat, eps, convention.eps);
  }
  return result;
}

}  // namespace normgate
