// Two sums over a group that no dy changes: Σ dx = 0 for centred rows, and Σ dx·x̂ = E Σ g·x̂ with the term that eps
// leaves: E = r³ eps inside the root, r² eps outside it, as a floor 0 where it does not hold and r where it does.
//
// Proof. dx = r (g - mean g) - q d Σgd/N with d = x - mean, x̂ = r d. Σ (g - mean g) = 0 and Σ d = 0 give the first.
// Σ x̂ = 0 (rows that are not centred have no mean g), Σ d x̂ = r N v and Σgd = Σgx̂/r give
//   Σ dx·x̂ = r Σgx̂ - q v r N Σgd/N = (r - q v) Σgx̂,
// and r - q v is r - r³ v = r³ eps inside, r - r² √v = r² eps outside, 0 or r as a floor (q = r³ or 0).
// Tolerance. A kernel is within t_i of its function F_i, so its sum with weights w_i is within Σ |w_i| t_i of Σ w_i
// F_i. Where F is the derivative, that sum is the identity's. Where the kernel declares another function of handed
// statistics, Σ w_i F_i misses the identity by an amount that is computed and added; what double rounds is covered by
// n 2^-48 of the moduli. Preconditions: training; finite inputs; with from_output, which has no x, the first sum only.
#include <fmt/format.h>

#include <cmath>

#include "properties/backward/terms.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  if (subject.phase != Phase::backward_training || !is_new_to_backward(subject)) return false;
  return subject.row.centred || subject.kernel.claim.saved_use != SavedUse::from_output;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "gradient_identities");
  // An eps of the variance's order leaves a term to be seen.
  constexpr std::array eps_values{0.5F, 1.0F, 1e-5F, 4.0F, 1e-2F};
  constexpr std::array kappas{1.0, 0.0, 10.0, 300.0};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 8); ++round)
    for (const std::int64_t length : planner.lengths(2600, 5)) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 300 ? 1 : 0;
      recipe.profile = i % 4 == 3 ? Profile::outlier_channels : Profile::conditioned;
      recipe.kappa = kappas[i % kappas.size()];
      recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
      recipe.handed = Handed::nearest;
      planner.add(recipe);
      ++i;
    }
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  const Demand demand = demand_of(c, subject);
  const Truth& truth = *demand.truth;
  const auto& tolerance = demand.bounds->tolerance[Role::dx];
  const auto& dx = outcomes[0].outputs[Role::dx];
  const Groups groups(problem.shape, subject.row);
  const bool apart = problem.from_output || demand.truth != &c.gradient(SavedUse::recomputes);
  const double rounding = static_cast<double>(groups.size()) * 0x1p-48;
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::vector<std::size_t> index;
    groups.for_each(q, [&](std::int64_t i, const Shape&) { index.push_back(static_cast<std::size_t>(i)); });
    bool judged = true;
    for (const std::size_t i : index) judged = judged && tolerance[i] < infinity && truth.out[Role::dx][i].finite();
    GroupTerms terms;
    if (!problem.from_output)
      terms = terms_of(c, c.gradient(SavedUse::recomputes).groups[static_cast<std::size_t>(q)], q);
    if (!judged || (!problem.from_output && terms.index.empty())) {
      judgement.not_judged += groups.size();
      continue;
    }
    judgement.elements += groups.size();
    const auto demand_sum = [&](const std::vector<double>& weight, double want, double moduli, std::string_view name) {
      double got = 0, function = 0, allowed = moduli * rounding;
      for (std::size_t j = 0; j < index.size(); ++j) {
        const Exact& f = truth.out[Role::dx][index[j]];
        const double value = static_cast<double>(dx[index[j]]);
        got += weight[j] * value;
        function += weight[j] * f.hi;
        allowed +=
            std::fabs(weight[j]) * (tolerance[index[j]] + f.bound + (std::fabs(value) + std::fabs(f.hi)) * rounding);
      }
      const double missed = apart ? std::fabs(function - want) : 0;
      const double error = std::fabs(got - want);
      // What the declared function misses is no quality of the kernel.
      const double share = error <= missed ? 0 : (error - missed) / allowed;
      allowed += missed;
      judgement.worst_share = std::max(judgement.worst_share, share);
      judgement.worst_role = Role::dx;
      if (error <= allowed || judgement.violation) return;
      Violation violation;
      violation.at = fmt::format("dx, group {} of {}, {} elements", q, groups.count(), groups.size());
      violation.got = fmt::format("{} {:.9g}", name, got);
      violation.want = fmt::format("{:.9g} within {:.4g}", want, allowed);
      violation.error = fmt::format("{:.4g} of the bound   ({})", share,
                                    bound_in_words(c, subject.kernel.claim, index.front(), Role::dx));
      judgement.violation = std::move(violation);
    };
    if (subject.row.centred) demand_sum(std::vector<double>(index.size(), 1.0), 0, 0, "sum of dx");
    if (problem.from_output) continue;
    std::vector<double> normalized(index.size());
    for (std::size_t j = 0; j < index.size(); ++j) normalized[j] = terms.d[j] * terms.r;
    double factor = terms.q > 0 ? 0 : terms.r;
    if (terms.q > 0 && problem.convention.eps == EpsPlacement::inside)
      factor = terms.r * terms.r * terms.r * problem.eps;
    if (terms.q > 0 && problem.convention.eps == EpsPlacement::outside) factor = terms.r * terms.r * problem.eps;
    demand_sum(normalized, factor * terms.sum_gd * terms.r, terms.r * terms.r * terms.moduli_gd,
               "sum of dx * (x - mean) / D");
  }
  return judgement;
}

}  // namespace

const Property gradient_identities{"gradient_identities",
                                   "A group's dx sums to zero, and to the term of eps when weighed by x normalized.",
                                   applies,
                                   plan,
                                   one_call,
                                   judge};

}  // namespace normgate
