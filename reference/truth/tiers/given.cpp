#include "reference/truth/tiers/given.hpp"

namespace normgate::tiers {

std::optional<Statistics> given_statistics(const Problem& problem, const Inputs& inputs, const Groups& groups,
                                           std::int64_t q) {
  const VariantRow& row = row_of(problem.variant);
  const Convention& convention = problem.convention;
  if (problem.given == Given::running) {
    const std::int64_t c = dense_index(problem.shape, row.running, groups.origin(q));
    const bool accumulated = convention.momentum == MomentumForm::accumulated_weight;
    const double weight = accumulated ? static_cast<double>(inputs[Role::running_weight][0]) : 1;
    const auto over_weight = [&](Role role) {
      const Certified sum = exactly(inputs[role], c);
      if (weight == 0) return exactly(0);  // nothing accumulated yet counts as statistics of 0
      if (weight == 1 || !std::isfinite(sum.hi) || !std::isfinite(weight)) return exactly(sum.hi / weight);
      return divided(sum, weight);
    };
    const Certified mean = over_weight(Role::running_mean);
    const Certified variance = over_weight(Role::running_var);
    return statistics_given(mean, variance, problem.eps, convention.eps);
  }
  Certified mean;
  if (row.centred && !problem.from_output) mean = exactly(inputs[Role::mean], q);
  const float stat = inputs[Role::stat][static_cast<std::size_t>(q)];
  if (convention.saved == SavedStatistic::rstd) return statistics_given_reciprocal(mean, stat);
  return statistics_given(mean, exactly(static_cast<double>(stat)), problem.eps, convention.eps);
}

}  // namespace normgate::tiers
