// Inference reads running statistics and leaves them bit-unchanged. They are mapped read-only in the worker, so that a
// write faults at its byte; in a run inside the gate's process the runner compares them afterwards. Running twice must
// give the same y as well: within the sum of both bounds, or bit for bit where the kernel is deterministic.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  return is_primary(subject) && subject.phase == Phase::forward_inference && !subject.row.running.empty() &&
         supports(subject, Role::running_var);
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "inference_state");
  for (const std::int64_t length : {1, 2, 3, 5, 16, 17, 33, 64, 100, 257, 520}) {
    Recipe recipe;
    recipe.length = length;
    recipe.kappa = 2;
    recipe.momentum = static_cast<double>(length % 2 == 0 ? 0.9F : 0.1F);
    recipe.given = Given::running;
    planner.add(recipe);
  }
  return planner.take();
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  return {call_of(c.problem(), c.inputs(), subject), call_of(c.problem(), c.inputs(), subject)};
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  for (const auto& outcome : outcomes)
    for (const auto& finding : outcome.findings) {
      const bool state = finding.role == Role::running_mean || finding.role == Role::running_var ||
                         finding.role == Role::running_weight;
      if (!state || judgement.violation) continue;
      Violation violation;
      violation.at = std::string(name_of(finding.role));
      violation.got = finding.sentence;
      violation.want = "bit-unchanged running statistics";
      judgement.violation = std::move(violation);
    }
  constexpr Role roles[] = {Role::y};
  const auto& claim = subject.kernel.claim;
  std::optional<Bounds> bounds;
  if (!claim.deterministic) bounds = forward_bounds(c.problem(), c.inputs(), c.truth(), claim);
  judge_equal(c, outcomes[0].outputs, outcomes[1].outputs, roles, claim.deterministic ? nullptr : &*bounds,
              "when run again", judgement);
  return judgement;
}

}  // namespace

const Property inference_state{
    "inference_state", "Inference leaves the running statistics bit-unchanged.", applies, plan, calls, judge};

}  // namespace normgate
