// A group of y has no systematic gain and no systematic offset beyond their own deterministic bounds.
//
// With g = γ x̂ and e the error of y, ρ = Σ e g / Σ g² is the gain and Σ e / n the offset; reference/bounds derives what
// rounding can do to them (levels). On exact-sum data every order of summation is exact, the depth terms vanish, and
// about six roundings remain, so that a divisor n-1 in place of n, a gain of 1/(2n), shows up to n = 2^20.
// Preconditions: training (given statistics have no divisor); a group with a deviation.
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
  Planner planner(subject, effort, seed, "gain_and_offset");
  auto lengths = planner.lengths(8200, 2);
  if (planner.primary()) {
    lengths.push_back(16384);
    lengths.push_back(65536 + 9);
    if (effort != Effort::quick) lengths.push_back(1 << 17);
    if (effort == Effort::thorough) lengths.push_back(1 << 20);
  }
  std::size_t i = 0;
  for (const std::int64_t length : lengths) {
    if (length < 2) continue;
    Recipe recipe;
    recipe.length = length;
    recipe.profile = Profile::exact_sum;
    recipe.level = 1 + 2 * static_cast<std::int32_t>(i % 4);
    recipe.groups = length > 4000 ? 1 : 0;
    // γ and β cost two roundings that the long groups cannot spare.
    if (length > 4000 || i % 2 == 0) recipe.gamma = recipe.beta = 0;
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
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const auto& levels = bounds.levels[static_cast<std::size_t>(q)];
    const auto& truth = c.truth().groups[static_cast<std::size_t>(q)];
    if (levels.gain_bound == infinity) {
      judgement.not_judged += groups.size();
      continue;
    }
    double gain = 0, square = 0, offset = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const double d = minus(static_cast<double>(c.inputs()[Role::x][index]), truth.mean);
      const double g = gamma_in_use(problem, c.inputs(), row, at) * d * truth.rstd.hi;
      const double e = minus(static_cast<double>(y[index]), c.truth().out[Role::y][index]);
      gain += e * g;
      square += g * g;
      offset += e;
    });
    judgement.elements += groups.size();
    const double n = static_cast<double>(groups.size());
    gain /= square;
    offset /= n;
    // The sums above are rounded in double, relative to the sums of moduli, which the bounds on |e| dominate.
    const double doubt = 1 + n * 0x1p-50;
    const auto level = [&](double value, double bound, std::string_view name) {
      const double share = std::fabs(value) / bound;
      if (share > judgement.worst_share) judgement.worst_share = share;
      judgement.worst_row_ulp = std::max(judgement.worst_row_ulp, std::fabs(value) / 0x1p-23);
      if (std::fabs(value) <= bound * doubt || judgement.violation) return;
      Violation violation;
      violation.at = fmt::format("y, group {} of {}, {} elements", q, groups.count(), groups.size());
      violation.got = fmt::format("{} {:.4g} ({:.4g} u)", name, value, value / unit_float32);
      violation.want = fmt::format("at most {:.4g} ({:.4g} u)", bound, bound / unit_float32);
      violation.error = fmt::format("{:.4g} of the bound   ({})", share,
                                    bound_in_words(c, subject.kernel.claim, 0, Role::running_var));
      judgement.violation = std::move(violation);
    };
    level(gain, levels.gain_bound, "gain");
    level(offset, levels.offset_bound, "offset");
  }
  return judgement;
}

}  // namespace

const Property gain_and_offset{
    "gain_and_offset", "A group of y has no systematic gain or offset beyond what rounding can do on exact-sum data.",
    applies,           plan,
    one_call,          judge};

}  // namespace normgate
