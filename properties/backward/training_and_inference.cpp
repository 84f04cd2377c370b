// In training the statistics depend on x, in inference they do not: training's dx minus inference's with the same
// statistics is -(r mean g + q d Σgd/N), inside the root -r (mean g + x̂ mean(g x̂)); and in inference an element of dx
// depends on its own dy alone.
//
// Proof of the tolerances. Training's dx lies within its bound of the function F that the kernel computes of what it is
// handed, so within bound + |F - derivative| of the derivative; inference's within its bound of g r~ with the given r~,
// so within bound + |g r~ - g r| of g r with the exact r; the difference of the exact values is the term above,
// computed here in double, which n 2^-48 of its moduli covers. In the second half both calls have the same truth at the
// elements that are kept: sum of bounds, and equal bits in a group that is kept whole iff the kernel promises
// row_independent. Preconditions: the first half is tried in backward_training, of a kernel that has both phases and
// can be given the statistics of groups in inference; handed ones are nearest to the true ones.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/backward/terms.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool has_role(const runner::KernelInfo& kernel, Phase phase, Role role, std::uint64_t runner::PhaseRoles::*which) {
  return ((kernel.roles[static_cast<std::size_t>(phase)].*which >> index_of(role)) & 1U) != 0;
}

bool supports_in_inference(const Subject& subject, Role role) {
  return has_role(subject.kernel, Phase::backward_inference, role, &runner::PhaseRoles::supported);
}

// How inference can be handed the statistics of the groups: as saved ones or, where a group is a channel, as running
// ones; none: not at all.
Given ways_to_give(const Subject& subject) {
  const auto& phases = subject.kernel.phases;
  constexpr Phase inference = Phase::backward_inference;
  if (std::find(phases.begin(), phases.end(), inference) == phases.end()) return Given::none;
  const bool centred = subject.row.centred;
  if (supports_in_inference(subject, Role::stat) && (!centred || supports_in_inference(subject, Role::mean)) &&
      !has_role(subject.kernel, inference, Role::running_var, &runner::PhaseRoles::required))
    return Given::saved;
  if (subject.row.running == subject.row.reduced.complement() && supports_in_inference(subject, Role::running_var) &&
      supports_in_inference(subject, Role::running_mean) &&
      subject.convention.momentum != MomentumForm::accumulated_weight)
    return Given::running;
  return Given::none;
}

bool applies(const Subject& subject) {
  if (!is_backward(subject.phase) || !is_new_to_backward(subject)) return false;
  if (subject.phase == Phase::backward_inference) return is_primary(subject);
  return ways_to_give(subject) != Given::none && subject.kernel.claim.saved_use != SavedUse::from_output;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "training_and_inference");
  constexpr std::array kappas{1.0, 0.0, 20.0};
  constexpr std::array eps_values{1e-3F, 1e-5F, 0.5F};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 6); ++round)
    for (const std::int64_t length : planner.lengths(2100, 7)) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 300 ? 1 + length % 2 : 2 + length % 3;
      recipe.kappa = kappas[i % kappas.size()];
      recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
      recipe.handed = Handed::nearest;
      // dx of inference is g r, which training leaves least where dy is 1 or x normalized.
      recipe.layouts = i % 4 == 3;
      planner.add(recipe);
      ++i;
    }
  return planner.take();
}

// The same data in inference, with the statistics that the training is handed or would be.
const Case& inference_of(const Case& c, const Subject& subject) {
  const Given given = ways_to_give(subject);
  return c.derived(static_cast<std::size_t>(given), [&c, given] {
    Problem problem = c.problem();
    problem.saved = true;
    problem.handed = Handed::nearest;
    problem.values = {};
    problem.values[Role::x] = c.inputs()[Role::x];
    if (given == Given::running) problem.convention.saved = SavedStatistic::variance;
    Inputs handed = make_inputs(problem);
    problem.values = {};
    problem.convention = c.problem().convention;
    problem.phase = Phase::backward_inference;
    problem.saved = false;
    problem.given = given;
    Inputs inputs = c.inputs();
    inputs[Role::mean].clear();
    inputs[Role::stat].clear();
    inputs[given == Given::saved ? Role::mean : Role::running_mean] = std::move(handed[Role::mean]);
    inputs[given == Given::saved ? Role::stat : Role::running_var] = std::move(handed[Role::stat]);
    return Case(problem, std::move(inputs));
  });
}

// Whether an element is kept in the second half: whole groups, and some of the elements of the others.
bool kept(std::int64_t group, std::int64_t position) { return group % 3 == 1 || position % 3 == 1; }

Inputs with_other_elements(const Case& c, const VariantRow& row) {
  Problem other = c.problem();
  other.key ^= 0x5DEECE66DU;
  other.values = {};
  Inputs inputs = c.inputs();
  const Inputs others = make_inputs(other);
  const Groups groups(c.problem().shape, row);
  // What is one in memory stays one.
  const bool whole = !c.problem().layout[Role::dy].broadcast.empty();
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::int64_t position = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const auto index = static_cast<std::size_t>(i);
      if (!kept(q, position++)) {
        inputs[Role::x][index] = 64.0F * others[Role::x][index];
        if (!whole) inputs[Role::dy][index] = 4096.0F * others[Role::dy][index];
      }
    });
  }
  return inputs;
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  if (subject.phase == Phase::backward_inference)
    return {call_of(c.problem(), c.inputs(), subject),
            call_of(c.problem(), with_other_elements(c, subject.row), subject)};
  const Case& inference = inference_of(c, subject);
  return {call_of(c.problem(), c.inputs(), subject), call_of(inference.problem(), inference.inputs(), subject)};
}

Judgement judge_difference(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes) {
  Judgement judgement;
  const Case& inference = inference_of(c, subject);
  const Demand training = demand_of(c, subject);
  const Demand given = demand_of(inference, subject);
  const Truth& derivative = c.gradient(SavedUse::recomputes);
  const auto& function = given.truth->out[Role::dx];
  const Groups groups(c.problem().shape, subject.row);
  const auto n = static_cast<double>(groups.size());
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const GroupTerms terms = terms_of(c, derivative.groups[static_cast<std::size_t>(q)], q);
    if (terms.index.empty()) {
      judgement.not_judged += groups.size();
      continue;
    }
    const double mean_g = subject.row.centred ? terms.sum_g / n : 0;
    // A variance under n-1 of one value is NaN, or a constant with q = 0 below.
    const double projection = terms.q > 0 && terms.divisor > 0 ? terms.q * terms.sum_gd / terms.divisor : 0;
    const double rounding = n * 0x1p-48;
    for (std::size_t j = 0; j < terms.index.size(); ++j) {
      const std::size_t i = terms.index[j];
      const double tolerance = training.bounds->tolerance[Role::dx][i] + given.bounds->tolerance[Role::dx][i];
      if (!(tolerance < infinity) || !function[i].finite() || !training.truth->out[Role::dx][i].finite() ||
          !derivative.out[Role::dx][i].finite()) {
        ++judgement.not_judged;
        continue;
      }
      ++judgement.elements;
      const double own = terms.g[j] * terms.r;
      const double want = -(terms.r * mean_g + terms.d[j] * projection);
      const double moduli = terms.r * (terms.moduli_g / n) +
                            std::fabs(terms.d[j]) * terms.q * terms.moduli_gd / std::max(terms.divisor, 1.0);
      // What the functions of rounded statistics are away from those of the exact ones is no quality of the kernel.
      const Exact& declared = training.truth->out[Role::dx][i];
      const Exact& exact = derivative.out[Role::dx][i];
      const double apart = std::fabs((declared.hi - exact.hi) + (declared.lo - exact.lo)) + declared.bound +
                           exact.bound + std::fabs((function[i].hi - own) + function[i].lo) + function[i].bound;
      const double bound = tolerance + (moduli + std::fabs(own)) * rounding;
      const double allowed = bound + apart;
      const auto got_training = static_cast<double>(outcomes[0].outputs[Role::dx][i]);
      const auto got_inference = static_cast<double>(outcomes[1].outputs[Role::dx][i]);
      const double got = got_training - got_inference;
      const double error = std::fabs(got - want);
      const double share = error <= apart ? 0 : (error - apart) / bound;
      judgement.worst_share = std::max(judgement.worst_share, share);
      judgement.worst_role = Role::dx;
      if (error <= allowed || judgement.violation) continue;
      Violation violation;
      violation.at = place(c.problem(), Role::dx, i, outcomes[0].outputs[Role::dx]);
      violation.got = fmt::format("{:.9g} = {} in training - {} in inference", got, shortest(got_training),
                                  shortest(got_inference));
      violation.want = fmt::format("{:.9g} within {:.4g}", want, allowed);
      violation.error =
          fmt::format("{:.4g} of the bound   ({})", share, bound_in_words(c, subject.kernel.claim, i, Role::dx));
      judgement.violation = std::move(violation);
    }
  }
  return judgement;
}

Judgement judge_own_element(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes) {
  Judgement judgement;
  const Demand demand = demand_of(c, subject);
  const Groups groups(c.problem().shape, subject.row);
  constexpr Role roles[] = {Role::dx};
  // What is not compared is put back to what the first result says.
  Inputs whole_groups = outcomes[0].outputs;
  Inputs some_elements = outcomes[0].outputs;
  std::int64_t compared = 0;
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::int64_t position = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const auto index = static_cast<std::size_t>(i);
      if (kept(q, position++)) {
        ++compared;
        some_elements[Role::dx][index] = outcomes[1].outputs[Role::dx][index];
        if (q % 3 == 1) whole_groups[Role::dx][index] = outcomes[1].outputs[Role::dx][index];
      }
    });
  }
  if (subject.kernel.claim.row_independent)
    judge_equal(c, outcomes[0].outputs, whole_groups, roles, nullptr, "with other values in the other groups",
                judgement);
  judge_equal(c, outcomes[0].outputs, some_elements, roles, &*demand.bounds, "with other values in other elements",
              judgement);
  judgement.elements = compared;
  judgement.discarded = compared == 0;
  return judgement;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  if (c.problem().from_output || c.problem().handed != Handed::nearest || c.problem().profile == Profile::special) {
    Judgement judgement;
    judgement.discarded = true;
    return judgement;
  }
  return is_training(subject.phase) ? judge_difference(c, subject, outcomes) : judge_own_element(c, subject, outcomes);
}

}  // namespace

const Property training_and_inference{
    "training_and_inference",
    "Training's dx differs from inference's by what the statistics depend on; inference's depends on its own dy alone.",
    applies,
    plan,
    calls,
    judge};

}  // namespace normgate
