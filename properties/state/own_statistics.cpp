// Inference that is given the batch's own statistics as running or saved ones is training: y is the same but for the
// rounding of what is given to float32.
//
// Proof of the tolerance. Training's y lies within its bound of y = γ d r + β, with d = x - mean and r = 1/D of x
// itself. Inference computes y~ = γ d~ r~ + β from the float32 nearest to the statistics, exact inputs to it, so that
// it lies within its own bound of y~ (reference/bounds). And
//   |y~ - y| <= |γ| (|d| |r~ - r| + |m~ - m| r~).
// |m~ - m| <= u |m|. Where the variance is given, v~ = v (1+ε), |ε| <= u, and whether eps stands inside the root,
// outside it or as a floor, D~²/D² lies in [1-u, 1+u]: what is added to v or its root, or exceeds it, pulls the ratio
// towards 1. So |r~ - r| <= ((1-u)^(-1/2) - 1) r <= 0.5001 u r. Where the reciprocal is given, it is u r. The rounding
// of the weight of accumulated statistics does not come in: it is given as 1. So training is judged as ever, and
// inference against training's y within the sum of its bound and the above; the definition of inference enters only
// through its bound.
//
// Preconditions: a kernel that has both phases; a row whose groups are what the statistics belong to; mean, variance
// and reciprocal normal floats or 0, else nothing is judged (their rounding would be absolute).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/affine.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool has_phase(const Subject& subject, Phase phase) {
  const auto& phases = subject.kernel.phases;
  return std::find(phases.begin(), phases.end(), phase) != phases.end();
}

Subject in_training(const Subject& subject) {
  return {subject.row, Phase::forward_training, subject.kernel, subject.convention};
}

// What a running variance is divided by, what momentum weighs (but for a weight that inference divides by) and how
// gradients are written is nothing to either y.
bool is_new(const Subject& subject) {
  const auto seen = [](Convention convention) {
    convention.stored = {};
    convention.single = {};
    convention.gradients = {};
    if (convention.momentum != MomentumForm::accumulated_weight) convention.momentum = {};
    return convention;
  };
  for (const Convention& other : subject.kernel.conventions) {
    if (other == subject.convention) return true;
    if (seen(other) == seen(subject.convention)) return false;
  }
  return true;
}

bool applies(const Subject& subject) {
  return subject.phase == Phase::forward_inference && has_phase(subject, Phase::forward_training) && is_new(subject);
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "own_statistics");
  constexpr std::array profiles{Profile::conditioned, Profile::near_constant, Profile::outlier_channels,
                                Profile::conditioned, Profile::constant,      Profile::needle,
                                Profile::exact_sum,   Profile::conditioned};
  constexpr std::array kappas{1.0, 100.0, 0.0, 1e4, 10.0};
  constexpr std::array scales{0, 10, -10, 30, -30, 0};
  // Beside a variance of 4^scale: small, of its order, far above it.
  constexpr std::array eps_values{1e-5F, 1e-12F, 0.5F, 1e-3F, 64.0F};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 10); ++round)
    for (const std::int64_t length : planner.lengths(effort == Effort::quick ? 2100 : 4200, 4)) {
      Recipe recipe;
      recipe.length = length;
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = kappas[i % kappas.size()];
      recipe.scale = scales[i % scales.size()];
      recipe.level = 3;
      if (i % 4 != 3) recipe.eps = static_cast<double>(eps_values[(i / 2) % eps_values.size()]);
      recipe.given = i % 2 == 0 ? Given::running : Given::saved;
      recipe.layouts = i % 5 == 3;
      planner.add(recipe);
      ++i;
    }
  std::vector<Problem> problems = planner.take();
  // Running statistics belong to channels: a group has statistics of its own there if it is its channel's only one.
  for (Problem& problem : problems)
    if (problem.given == Given::running && !subject.row.reduced.has(Axis::n)) problem.shape[0] = 1;
  return problems;
}

// The same data in training.
const Case& training_of(const Case& c, const Subject& subject) {
  Problem training = c.problem();
  training.saved = true;
  training = inside_claim(std::move(training), in_training(subject));
  // Kernels that share the case may have to be handed other tensors in training.
  const std::size_t which = std::hash<std::string>{}(print(training)) | 1U;
  return c.derived(which, [&] {
    Inputs inputs = make_inputs(training);
    for (const Role role : {Role::x, Role::gamma, Role::beta}) inputs[role] = c.inputs()[role];
    return Case(training, std::move(inputs));
  });
}

// Inference with the float32 nearest to the statistics of `training`.
const Case& inference_of(const Case& c, const Case& training) {
  return c.derived(0, [&] {
    const Problem& problem = c.problem();
    Inputs inputs = c.inputs();
    const bool running = problem.given == Given::running;
    auto& means = inputs[running ? Role::running_mean : Role::mean];
    auto& spreads = inputs[running ? Role::running_var : Role::stat];
    const bool reciprocal = !running && problem.convention.saved == SavedStatistic::rstd;
    const auto& groups = training.truth().groups;
    for (std::size_t q = 0; q < groups.size(); ++q) {
      if (!means.empty()) means[q] = static_cast<float>(groups[q].mean.hi);
      spreads[q] = static_cast<float>(reciprocal ? groups[q].rstd.hi : groups[q].variance.hi);
    }
    for (float& weight : inputs[Role::running_weight]) weight = 1;
    return Case(problem, std::move(inputs));
  });
}

bool comparable(const Problem& inference, const Problem& training) {
  const bool same_tensors =
      inference.shape == training.shape && inference.gamma == training.gamma && inference.beta == training.beta;
  const bool own =
      inference.given == Given::saved || !row_of(inference.variant).centred ||
      group_count(inference) == element_count(restricted(inference.shape, row_of(inference.variant).running));
  return same_tensors && own && check(training).empty();
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  const Case& training = training_of(c, subject);
  if (!comparable(c.problem(), training.problem())) return one_call(c, subject);
  const Case& inference = inference_of(c, training);
  return {call_of(training.problem(), training.inputs(), in_training(subject)),
          call_of(inference.problem(), inference.inputs(), subject)};
}

bool is_normal_or_zero(double value) {
  return value == 0 || (std::fabs(value) >= 0x1p-126 && std::fabs(value) < 0x1p127);
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Case& training = training_of(c, subject);
  if (!comparable(c.problem(), training.problem())) {
    judgement.discarded = true;
    return judgement;
  }
  const Claim& claim = subject.kernel.claim;
  constexpr Role roles[] = {Role::y};
  judge_within_bounds(training, claim, demand_of(training, in_training(subject)), outcomes[0].outputs, roles,
                      judgement);
  if (judgement.violation) {
    judgement.violation->at += "  in training";
    return judgement;
  }
  const Case& inference = inference_of(c, training);
  const Problem& problem = inference.problem();
  Demand demand{&training.truth(), demand_of(inference, subject).bounds};
  const bool reciprocal = problem.given == Given::saved && problem.convention.saved == SavedStatistic::rstd;
  const double of_spread = (reciprocal ? 1 : 0.5001) * unit_float32;
  const Groups groups(problem.shape, subject.row);
  std::vector<double>& tolerances = demand.bounds.own().tolerance[Role::y];
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const GroupTruth& own = training.truth().groups[static_cast<std::size_t>(q)];
    const bool rounds = own.mean.finite() && own.rstd.finite() && is_normal_or_zero(own.mean.hi) &&
                        is_normal_or_zero(reciprocal ? own.rstd.hi : own.variance.hi);
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      double& tolerance = tolerances[static_cast<std::size_t>(i)];
      const double gamma = std::fabs(gamma_in_use(problem, inference.inputs(), subject.row, at));
      const double d = minus(static_cast<double>(inference.inputs()[Role::x][static_cast<std::size_t>(i)]), own.mean);
      const double rounding =
          gamma * own.rstd.hi * (std::fabs(d) * of_spread + std::fabs(own.mean.hi) * unit_float32 * (1 + 0x1p-20));
      const double doubt = inference.truth().out[Role::y][static_cast<std::size_t>(i)].bound;
      tolerance = rounds ? (tolerance + rounding + doubt) * (1 + 0x1p-45) : infinity;
    });
  }
  judge_within_bounds(training, claim, demand, outcomes[1].outputs, roles, judgement);
  if (judgement.violation) judgement.violation->at += "  in inference with the batch's own statistics";
  return judgement;
}

}  // namespace

const Property own_statistics{
    "own_statistics", "Inference with the batch's own statistics is training.", applies, plan, calls, judge};

}  // namespace normgate
