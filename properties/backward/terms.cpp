#include "properties/backward/terms.hpp"

#include <cmath>

#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

// q of the definition: the derivative of 1/D by the variance is -q/2.
double factor_of(const Problem& problem, const Exact& variance, double r) {
  switch (problem.convention.eps) {
    case EpsPlacement::outside:
      return variance.hi > 0 ? r * r / std::sqrt(variance.hi) : 0;
    case EpsPlacement::floor:
      return (variance.hi - problem.eps) + variance.lo > variance.bound ? r * r * r : 0;
    case EpsPlacement::inside:
      break;
  }
  return r * r * r;
}

}  // namespace

GroupTerms terms_of(const Case& c, const GroupTruth& statistics, std::int64_t group) {
  const Problem& problem = c.problem();
  const VariantRow& row = row_of(problem.variant);
  const Inputs& inputs = c.inputs();
  const Groups groups(problem.shape, row);
  const bool n_minus_1 = row.centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1;
  const double plus = problem.convention.gamma == GammaOffset::plus_one ? 1 : 0;
  GroupTerms terms;
  terms.r = statistics.rstd.hi;
  if (!std::isfinite(terms.r) || !statistics.mean.finite()) return terms;
  terms.variance = statistics.variance.hi;
  terms.divisor = static_cast<double>(groups.size()) - (n_minus_1 ? 1 : 0);
  terms.q = statistics.variance.finite() ? factor_of(problem, statistics.variance, terms.r) : 0;
  groups.for_each(group, [&](std::int64_t i, const Shape& at) {
    const auto index = static_cast<std::size_t>(i);
    const auto channel = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
    const double weight = problem.gamma ? static_cast<double>(inputs[Role::gamma][channel]) + plus : 1;
    const double g = static_cast<double>(inputs[Role::dy][index]) * weight;
    const double x = static_cast<double>(inputs[Role::x][index]);
    const double d = row.centred ? (x - statistics.mean.hi) - statistics.mean.lo : x;
    terms.index.push_back(index);
    terms.g.push_back(g);
    terms.d.push_back(d);
    terms.sum_g += g;
    terms.moduli_g += std::fabs(g);
    terms.sum_gd += g * d;
    terms.moduli_gd += std::fabs(g * d);
  });
  return terms;
}

}  // namespace normgate
