// Parameter gradients are sums over the samples: what the first samples and the others give separately adds up to what
// all give, by overwriting and adding here, or by accumulating, the second part on top of what the first one gave.
//
// Proof of the tolerances. Each of the three results lies within its bound of its truth, and the truths add up, as no
// term of Σ dy·x̂ or Σ dy depends on another part. Accumulating, the second part's result is judged as one that began
// with what the first part left, an exact input: it lies within bound of that plus the part's sum.
// Preconditions: groups that lie inside a sample, or given statistics (backward_inference): training statistics over
// samples would change with the split. At least two samples. That overwriting ignores what was there before needs no
// property of its own: outputs are filled with NaN before every call.
#include <fmt/format.h>

#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"

namespace normgate {
namespace {

constexpr Role parameter_roles[] = {Role::dgamma, Role::dbeta};

bool applies(const Subject& subject) {
  const bool inside = !subject.row.reduced.has(Axis::n) || subject.phase == Phase::backward_inference;
  return is_backward(subject.phase) && inside && is_new_to_backward(subject) &&
         (supports(subject, Role::gamma) || supports(subject, Role::beta));
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "split_rows");
  const auto add = [&](std::int64_t length, std::int64_t samples, std::size_t i) {
    Problem p;
    p.shape = shape_with(subject.row, length, 2, i);
    // The samples are on N whatever the row reduces: a length over N and S keeps its positions.
    if (subject.row.reduced.has(Axis::n)) p.shape[3] = p.shape[0] * p.shape[3];
    p.shape[0] = samples;
    p.kappa = i % 3 == 0 ? 10 : 1;
    p.saved = i % 2 == 0;
    p.given = i % 3 == 0 ? Given::saved : Given::running;
    constexpr std::array cotangents{Cotangent::random, Cotangent::mixed, Cotangent::ones, Cotangent::pooled};
    p.cotangent = cotangents[i % cotangents.size()];
    p.gamma = i % 4 != 3;
    p.beta = i % 5 != 4;
    planner.add(p);
  };
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 6); ++round) {
    for (const std::int64_t length : planner.lengths(800, 13)) {
      add(length, 2 + static_cast<std::int64_t>(i % 5), i);
      ++i;
    }
    // Blocks of rows, and tails of them.
    for (const std::int64_t samples : {9, 17, 33, 49, 64, 130, 257}) {
      if (!planner.primary() && samples != 33) continue;
      add(1 + samples % 12, samples, i);
      ++i;
    }
  }
  return planner.take();
}

std::int64_t first_part(const Problem& problem) {
  return 1 + static_cast<std::int64_t>(problem.key % static_cast<std::uint64_t>(problem.shape[0] - 1));
}

bool can_be_split(const Problem& problem) { return problem.shape[0] > 1 && element_count(problem.shape) > 0; }

// The first samples of the problem, or the others. N is the outermost logical axis: a part of the samples is a part of
// every tensor that has the axis.
const Case& part(const Case& c, bool first) {
  return c.derived(first ? 0 : 1, [&c, first] {
    Problem problem = c.problem();
    const std::int64_t samples = problem.shape[0];
    const std::int64_t begin = first ? 0 : first_part(problem);
    const std::int64_t end = first ? first_part(problem) : samples;
    problem.shape[0] = end - begin;
    problem.values = {};
    Inputs inputs = c.inputs();
    for (std::size_t r = 0; r < role_count; ++r) {
      auto& values = inputs[static_cast<Role>(r)];
      if (!axes_of(static_cast<Role>(r), row_of(problem.variant)).has(Axis::n) || values.empty()) continue;
      const auto sample = static_cast<std::ptrdiff_t>(values.size()) / samples;
      values = std::vector<float>(values.begin() + begin * sample, values.begin() + end * sample);
    }
    return Case(problem, std::move(inputs));
  });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  if (!can_be_split(c.problem())) return result;
  for (const bool first : {true, false})
    result.push_back(call_of(part(c, first).problem(), part(c, first).inputs(), subject));
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench& bench) {
  Judgement judgement;
  const auto roles = written(c.problem(), parameter_roles);
  if (outcomes.size() < 3 || roles.empty() || c.problem().profile == Profile::special) {
    judgement.discarded = true;
    return judgement;
  }
  const bool accumulates = c.problem().convention.gradients == Gradients::accumulate;
  const Demand whole = demand_of(c, subject);
  const Demand one = demand_of(part(c, true), subject);
  Demand two = demand_of(part(c, false), subject);
  Inputs last = outcomes[2].outputs;
  std::optional<Case> on_top;
  if (accumulates) {
    Inputs inputs = part(c, false).inputs();
    for (const Role role : roles) inputs[role] = outcomes[1].outputs[role];
    last = bench.run_one(part(c, false).problem(), inputs).outputs;
    on_top.emplace(part(c, false).problem(), std::move(inputs));
    two = demand_of(*on_top, subject);
  }
  for (const Role role : roles)
    for (std::size_t i = 0; i < last[role].size(); ++i) {
      double allowed = 0;
      for (const Demand* demand : {&whole, &one, static_cast<const Demand*>(&two)})
        allowed += demand->bounds->tolerance[role][i] + demand->truth->out[role][i].bound;
      if (!(allowed < infinity) || !whole.truth->out[role][i].finite()) {
        ++judgement.not_judged;
        continue;
      }
      ++judgement.elements;
      const auto of_whole = static_cast<double>(outcomes[0].outputs[role][i]);
      const auto of_first = static_cast<double>(outcomes[1].outputs[role][i]);
      const auto of_last = static_cast<double>(last[role][i]);
      const double sum = accumulates ? of_last : of_first + of_last;
      const double error = std::fabs(sum - of_whole);
      const double share = error == 0 ? 0 : error / allowed;
      if (share > judgement.worst_share) {
        judgement.worst_share = share;
        judgement.worst_role = role;
      }
      const double rounding = (std::fabs(of_whole) + std::fabs(of_first) + std::fabs(of_last)) * 0x1p-50;
      if (error <= allowed + rounding || judgement.violation) continue;
      Violation violation;
      violation.at = place(c.problem(), role, i, outcomes[0].outputs[role]);
      violation.got = both_ways(of_whole);
      violation.want = accumulates ? fmt::format("{}   the last samples on top of the first {}", shortest(of_last),
                                                 first_part(c.problem()))
                                   : fmt::format("{} + {}   of the first {} samples and the others", shortest(of_first),
                                                 shortest(of_last), first_part(c.problem()));
      violation.error = fmt::format("differs by {:.4g}; the sum of the three bounds is {:.4g}", error, allowed);
      judgement.violation = std::move(violation);
    }
  return judgement;
}

}  // namespace

const Property split_rows{"split_rows", "Parameter gradients of parts of the samples add up to those of all samples.",
                          applies,      plan,
                          calls,        judge};

}  // namespace normgate
