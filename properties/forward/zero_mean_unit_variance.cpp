// The normalized group, z = (y - β) / γ, has mean 0 (centred rows) and mean square v r², which is v / (v + eps) inside
// the root, v / (√v + eps)² outside and v / max(v, eps) as a floor (times n-1 over n under that divisor).
//
// Proof of the tolerances: |z^ - z| <= t with t = tolerance of y / |γ|, so the mean of z^ errs by at most Σt/n and the
// mean of its squares by Σ(2|z|t + t²)/n; the sums here are rounded in double, which n 2^-50 covers.
// Preconditions: training; γ not 0; every element of the group judged.
#include <fmt/format.h>

#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/affine.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return subject.phase == Phase::forward_training; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "zero_mean_unit_variance");
  constexpr std::array kappas{0.0, 1.0, 10.0, 500.0};
  constexpr std::array scales{0, 3, -4, 12};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 8); ++round)
    for (const std::int64_t length : planner.lengths(4100, 3)) {
      if (length < 2) continue;
      Recipe recipe;
      recipe.length = length;
      recipe.profile = i % 5 == 4 ? Profile::outlier_channels : Profile::conditioned;
      recipe.kappa = kappas[i % kappas.size()];
      recipe.scale = scales[(i / 3) % scales.size()];
      planner.add(recipe);
      ++i;
    }
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  const auto& row = subject.row;
  const auto bounds = forward_bounds(problem, c.inputs(), c.truth(), subject.kernel.claim);
  const Groups groups(problem.shape, row);
  const auto& y = outcomes[0].outputs[Role::y];
  const double n = static_cast<double>(groups.size());
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const auto& truth = c.truth().groups[static_cast<std::size_t>(q)];
    double mean = 0, square = 0, mean_tolerance = 0, square_tolerance = 0, target = 0, moduli = 0;
    bool judged = true;
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const double weight = gamma_in_use(problem, c.inputs(), row, at);
      const double beta = beta_in_use(problem, c.inputs(), row, at);
      const double tolerance = bounds.tolerance[Role::y][index] + c.truth().out[Role::y][index].bound;
      if (weight == 0 || !(tolerance < infinity)) {
        judged = false;
        return;
      }
      const double z = (static_cast<double>(y[index]) - beta) / weight;
      const double exact = minus(static_cast<double>(c.inputs()[Role::x][index]), truth.mean) * truth.rstd.hi;
      // y - β is rounded in double as well.
      const double t = tolerance / std::fabs(weight) +
                       (std::fabs(static_cast<double>(y[index])) + std::fabs(beta)) / std::fabs(weight) * 0x1p-52;
      mean += z;
      square += z * z;
      target += exact * exact;
      moduli += std::fabs(z);
      mean_tolerance += t;
      square_tolerance += (2 * std::fabs(exact) + t) * t;
    });
    if (!judged) {
      judgement.not_judged += groups.size();
      continue;
    }
    judgement.elements += groups.size();
    const auto demand = [&](double got, double want, double tolerance, std::string_view name) {
      const double error = std::fabs(got - want);
      const double share = error == 0 ? 0 : error / tolerance;
      judgement.worst_share = std::max(judgement.worst_share, share);
      if (error <= tolerance || judgement.violation) return;
      Violation violation;
      violation.at = fmt::format("y, group {} of {}, {} elements", q, groups.count(), groups.size());
      violation.got = fmt::format("{} {:.9g}", name, got);
      violation.want = fmt::format("{:.9g} within {:.4g}", want, tolerance);
      violation.error = fmt::format("{:.4g} of the bound   ({})", share,
                                    bound_in_words(c, subject.kernel.claim, 0, Role::running_var));
      judgement.violation = std::move(violation);
    };
    if (row.centred) demand(mean / n, 0, (mean_tolerance + moduli * n * 0x1p-50) / n, "mean of (y - beta) / gamma");
    demand(square / n, target / n, (square_tolerance + (square + target) * n * 0x1p-50) / n,
           "mean square of (y - beta) / gamma");
  }
  return judgement;
}

}  // namespace

const Property zero_mean_unit_variance{"zero_mean_unit_variance",
                                       "A normalized group has mean zero and the variance that eps leaves it.",
                                       applies,
                                       plan,
                                       one_call,
                                       judge};

}  // namespace normgate
