// Over a sequence of steps on one state, which is handed from step to step as the kernel left it, running statistics
// are what the convention makes of all the batches; and what a kernel knows of the steps before it has from the state
// and the step's number alone, so that a state that was saved goes on from where it was, on any plan.
//
// The key decides what becomes of the steps (key mod 3): new data in each; the same data in each, which is as many
// updates, never one; or other extents and momenta in between: empty batches, a single value, momentum 0 and 1.
//
// Preconditions: training, a row that has running statistics, and a kernel that keeps them.
//
// One step: the state that it is handed is exactly known, so that the bound is that of one step, and nothing adds up.
// Empty batches leave the state bit for bit.
//
// All steps (where extents and momentum stay): a step is S' = k S + t B with the batch's B and weights k, t that the
// convention tells; a sound kernel's state is within e of k S~ + t B, where S~ is what it was handed. If |S~ - S| <= E
// then the new state is within k E + e of k S + t B. So from E = 0 at the first step, E <- k E + e bounds the distance
// to the closed form of the whole sequence,
//   new or old value weighed   k^T S0 + t (k^(T-1) B1 + … + BT)
//   cumulative                 ((s-1) S0 + B1 + … + BT) / (s-1+T), s the number of the first step: the plain mean of
//                              the batches where s = 1
//   accumulated weight         m^T S0 + m^(T-1) B1 + … + BT, and the weight the same with B = 1
// which does not go through the update of a step. It is evaluated in double: T+8 roundings of 2^-53 of the moduli. B is
// the truth of a first cumulative step, whose weight of the old state is 0.
//
// Saved and restored: two sequences that differ in data and state alone are run step by step, and then again from the
// states recorded, in turns (step 1 of the one, step 2 of the other, …), as one batch of calls: on other memory, after
// other calls, and on one plan, which serves them all since only data and step differ. A deterministic kernel gives the
// same bits, at the other fence too if it is layout_invariant; any other stays within its bounds.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/truth/running.hpp"

namespace normgate {
namespace {

constexpr Role state_roles[] = {Role::running_mean, Role::running_var, Role::running_weight};

enum class Course : std::uint64_t { new_data = 0, same_data = 1, changes = 2 };
constexpr std::uint64_t course_count = 3;
Course course_of(const Problem& problem) { return static_cast<Course>(problem.key % course_count); }

constexpr std::size_t steady_steps = 5;
constexpr std::size_t change_count = 8;
std::size_t steps_of(const Problem& problem) {
  return course_of(problem) == Course::changes ? change_count : steady_steps;
}

bool applies(const Subject& subject) {
  return subject.phase == Phase::forward_training && !subject.row.running.empty() &&
         supports(subject, Role::running_mean) && supports(subject, Role::running_var) &&
         (subject.convention.momentum != MomentumForm::accumulated_weight || supports(subject, Role::running_weight));
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "sequences");
  // Small counts, at which divisors and samples differ most, and some of each width.
  constexpr std::array<std::int64_t, 9> lengths{4, 2, 5, 12, 33, 3, 100, 64, 260};
  constexpr std::array momenta{0.25F, 0.9F, 0.1F, 1.0F, 0.0F, 0.5F};
  // The first, and some that are followed by a count of 8, 16 and 24 bits.
  constexpr std::array<std::int64_t, 6> first_steps{1, 254, 1, 65533, 2, (std::int64_t{1} << 24) - 2};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(4, 12, 32); ++round)
    for (std::size_t j = 0; j < lengths.size(); ++j) {
      if (!planner.primary() && (j + static_cast<std::size_t>(round)) % 3 != 0) continue;
      Recipe recipe;
      recipe.length = lengths[j];
      recipe.groups = 1 + static_cast<std::int64_t>(i % 4);
      recipe.kappa = i % 5 == 4 ? 30 : 1;
      recipe.momentum = static_cast<double>(momenta[i % momenta.size()]);
      recipe.step = first_steps[(i / 2) % first_steps.size()];
      recipe.running = 1;
      recipe.layouts = i % 7 == 6;
      if (i % 8 == 7) recipe.profile = Profile::parameter_rounding;
      if (i % 8 == 3) recipe.profile = Profile::constant;
      planner.add(recipe);
      ++i;
    }
  // States far from the batch, in either direction, and as a layer and a cumulative average begin.
  struct Old {
    float mean, variance;
  };
  constexpr std::array<Old, 7> states{
      Old{0x1p30F, 0x1p30F},    {-0x1p-30F, 0x1p-30F}, {0x1p30F, 0x1p-30F}, {-0x1p-30F, 0x1p30F}, {0, 1}, {0, 0},
      {-0x1.8p-60F, 0x1.2p-60F}};
  for (std::int64_t round = 0; round < planner.by_effort(2, 4, 8); ++round)
    for (const Old& old : states) {
      Problem problem;
      problem.shape = {3, 1, 3, 5};
      problem.running = true;
      problem.saved = i % 2 == 0;
      problem.momentum = static_cast<double>(momenta[i % momenta.size()]);
      problem.step = first_steps[i % first_steps.size()];
      problem.scale = round % 2 == 1 ? (old.variance < 1 ? -30 : 30) : 0;
      problem.values[Role::running_mean].assign(3, old.mean);
      problem.values[Role::running_var].assign(3, old.variance);
      planner.add(problem);
      ++i;
    }
  std::vector<Problem> problems = planner.take();
  // Courses in turn.
  for (std::size_t p = 0; p < problems.size(); ++p)
    problems[p].key = problems[p].key - problems[p].key % course_count + p % course_count;
  return problems;
}

// What step number `t` (from 0) of a sequence is, but for the state.
Problem step_of(const Problem& first, std::size_t t, std::uint64_t sequence) {
  Problem problem = first;
  const Course course = course_of(first);
  problem.step += static_cast<std::int64_t>(t);
  if (t > 0 || sequence > 0) {
    for (const Role role : {Role::x, Role::gamma, Role::beta}) problem.values[role].clear();
    // Another state, of its own key, for the second sequence.
    if (sequence > 0)
      for (const Role role : state_roles) problem.values[role].clear();
    problem.key += course_count * (sequence * 0x10001 + (course == Course::same_data ? 0 : t));
  }
  if (course != Course::changes) return problem;
  // batch_norm's values per channel lie along N and S, instance_norm's along S.
  Shape& shape = problem.shape;
  switch (t) {
    case 1:
      shape[0] = 0;
      break;
    case 2:
      shape[0] += 1;
      problem.momentum = 1;
      break;
    case 3:
      shape[3] = 0;
      break;
    case 4:
      problem.momentum = 0;
      break;
    case 5:
      shape[3] += 1;
      problem.momentum = 0.5;
      break;
    case 6:
      shape[0] = shape[3] = 1;
      break;
    default:
      break;
  }
  return problem;
}

// One step of a sequence, with the state that it was handed and what came of it.
struct Step {
  std::unique_ptr<const Case> own;  // none at the first step, whose case all kernels share
  const Case* given = nullptr;
  runner::Outcome outcome;
  [[nodiscard]] const Case& c() const { return own ? *own : *given; }
};

std::size_t sequences_of(const Problem& problem) { return course_of(problem) == Course::changes ? 1 : 2; }

// The first step of the second sequence.
const Case& second_case(const Case& c) {
  return c.derived(1, [&c] { return Case(step_of(c.problem(), 0, 1), Wanted::statistics); });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  if (sequences_of(c.problem()) > 1) {
    const Case& second = second_case(c);
    result.push_back(call_of(second.problem(), second.inputs(), subject));
  }
  return result;
}

// The closed form of `steps` against the state that the last of them left.
void judge_whole(const std::vector<Step>& steps, const Subject& subject, Judgement& judgement) {
  const Problem& first = steps.front().c().problem();
  const auto count = static_cast<double>(steps.size());
  const double m = first.momentum;
  const MomentumForm form = first.convention.momentum;
  const auto before = static_cast<double>(first.step - 1);
  // Weights of the state before the sequence, and of batch j of it.
  const auto old_weight = [&] {
    switch (form) {
      case MomentumForm::new_weight:
        return std::pow(1 - m, count);
      case MomentumForm::cumulative:
        return before / (before + count);
      default:
        return std::pow(m, count);
    }
  }();
  const auto batch_weight = [&](std::size_t j) {
    const double later = count - 1 - static_cast<double>(j);
    switch (form) {
      case MomentumForm::new_weight:
        return m * std::pow(1 - m, later);
      case MomentumForm::old_weight:
        return (1 - m) * std::pow(m, later);
      case MomentumForm::cumulative:
        return 1 / (before + count);
      case MomentumForm::accumulated_weight:
        break;
    }
    return std::pow(m, later);
  };
  std::vector<Truth> batches;
  std::vector<Bounds> bounds;
  for (const Step& step : steps) {
    Problem alone = step.c().problem();
    alone.convention.momentum = MomentumForm::cumulative;
    alone.step = 1;
    batches.push_back(forward_truth(alone, step.c().inputs(), Wanted::statistics));
    bounds.push_back(forward_bounds(step.c().problem(), step.c().inputs(), step.c().truth(), subject.kernel.claim));
  }
  for (const Role role : written(first, state_roles)) {
    if (role == Role::running_var && keeps_variance(first.convention, group_size(first))) continue;
    const auto& state = steps.back().outcome.outputs[role];
    for (std::size_t i = 0; i < state.size(); ++i) {
      const auto old = static_cast<double>(steps.front().c().inputs()[role][i]);
      double want = old_weight * old;
      double moduli = std::fabs(want);
      double error = 0;
      for (std::size_t j = 0; j < steps.size(); ++j) {
        const double keep = std::fabs(update_weights(form, m, steps[j].c().problem().step).keep) * (1 + 0x1p-50);
        error = keep * error + bounds[j].tolerance[role][i] + steps[j].c().truth().out[role][i].bound;
        const Exact one{1, 0, 0};
        const Exact& batch = role == Role::running_weight ? one : batches[j].out[role][i];
        const double weight = batch_weight(j);
        want += weight * batch.hi;
        moduli += std::fabs(weight * batch.hi);
        error += weight * batch.bound;
      }
      // A power of pow() is within an ulp or two, and of 1-m each factor may be rounded.
      error += (2 * count + 16) * 0x1p-52 * moduli;
      if (!(error < infinity) || !std::isfinite(want)) {
        ++judgement.not_judged;
        continue;
      }
      ++judgement.elements;
      const auto got = static_cast<double>(state[i]);
      const double apart = std::isfinite(got) ? std::fabs(got - want) : infinity;
      if (apart <= error * (1 + 0x1p-40) || judgement.violation) continue;
      Violation violation;
      violation.at = fmt::format("{}  after {} steps", place(first, role, i, state), steps.size());
      violation.got = both_ways(got);
      violation.want = fmt::format("{}, the mean of the batches that the convention means", both_ways(want));
      violation.error = fmt::format("differs by {:.4g}; the bounds of the steps add up to {:.4g}", apart, error);
      judgement.violation = std::move(violation);
    }
  }
}

// Both sequences again, from the states recorded.
void judge_restored(const std::vector<std::vector<Step>>& sequences, const Subject& subject, Bench& bench,
                    Judgement& judgement) {
  const Claim& claim = subject.kernel.claim;
  std::vector<const Step*> order;
  for (const std::size_t turn : {0U, 1U})
    for (std::size_t t = 0; t < sequences[0].size(); ++t) order.push_back(&sequences[(t + turn) % 2][t]);
  std::vector<runner::Call> again;
  for (const Step* step : order) {
    Problem problem = step->c().problem();
    if (claim.layout_invariant) problem.fence = problem.fence == Fence::right ? Fence::left : Fence::right;
    again.push_back(call_of(problem, step->c().inputs(), subject));
  }
  const auto outcomes = bench.run(again);
  for (std::size_t i = 0; i < order.size() && !judgement.violation; ++i) {
    const Case& c = order[i]->c();
    const auto roles = written(c.problem(), output_roles);
    if (claim.deterministic)
      judge_equal(c, order[i]->outcome.outputs, outcomes[i].outputs, roles, nullptr,
                  "from the same state, on a plan that has served other steps", judgement);
    else
      judge_within_bounds(c, claim, demand_of(c, subject), outcomes[i].outputs, written(c.problem(), state_roles),
                          judgement);
    if (judgement.violation)
      judgement.violation->at +=
          fmt::format("  at step {}, restored", c.problem().step - order.front()->c().problem().step + 1);
  }
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench& bench) {
  Judgement judgement;
  if (!c.problem().running) {
    judgement.discarded = true;
    return judgement;
  }
  const Claim& claim = subject.kernel.claim;
  const auto roles = written(c.problem(), state_roles);
  const std::size_t count = steps_of(c.problem());
  const std::size_t sequence_count = sequences_of(c.problem());
  std::vector<std::vector<Step>> sequences(sequence_count);
  // One sequence after the other: a step follows the one before it, as in a training.
  for (std::size_t q = 0; q < sequence_count; ++q)
    for (std::size_t t = 0; t < count && !judgement.violation; ++t) {
      Step step;
      if (t == 0) {
        step.given = q == 0 ? &c : &second_case(c);
        step.outcome = outcomes[q];
      } else {
        Problem problem = step_of(c.problem(), t, q);
        for (const Role role : roles) problem.values[role] = sequences[q].back().outcome.outputs[role];
        step.own = std::make_unique<const Case>(std::move(problem), Wanted::statistics);
        step.outcome = bench.run_one(step.c().problem(), step.c().inputs());
      }
      judge_within_bounds(step.c(), claim, demand_of(step.c(), subject), step.outcome.outputs, roles, judgement);
      if (judgement.violation) judgement.violation->at += fmt::format("  at step {} of {}", t + 1, count);
      sequences[q].push_back(std::move(step));
    }
  if (judgement.violation || sequence_count == 1) return judgement;
  if (updates_state(group_size(c.problem())) && group_count(c.problem()) > 0)
    judge_whole(sequences[0], subject, judgement);
  if (!judgement.violation) judge_restored(sequences, subject, bench, judgement);
  return judgement;
}

}  // namespace

const Property sequences{"sequences",
                         "Over many steps the state is what the convention makes of the batches, and a saved state "
                         "goes on from where it was.",
                         applies,
                         plan,
                         calls,
                         judge,
                         Wanted::statistics};

}  // namespace normgate
