// In inference, a sample does not depend on its batch mates: its statistics are given. One sample is kept, the others
// get other data; the kept sample's y, or its dx, has the same bits iff the kernel promises row_independent, else it
// differs by at most the sum of both bounds. Precondition: inference, at least two samples.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  return is_primary(subject) && !has_own_statistics(subject.phase) && !is_statistics(subject.phase);
}

// What is compared.
Role output_of(const Problem& problem) { return is_backward(problem.phase) ? Role::dx : Role::y; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "batch_mates");
  std::int64_t i = 0;
  for (const std::int64_t length : planner.lengths(2100, 4)) {
    Problem p;
    const std::int64_t samples = 2 + i % 4;
    p.shape = shape_with(subject.row, length, 2, static_cast<std::uint64_t>(i));
    // The samples are on N whatever the row reduces: a length over N and S keeps its positions.
    if (subject.row.reduced.has(Axis::n)) p.shape[3] = p.shape[0] * p.shape[3];
    p.shape[0] = samples;
    p.kappa = i % 2 == 0 ? 1 : 10;
    p.given = i % 3 == 0 ? Given::saved : Given::running;
    if (i % 2 == 1) p.cotangent = Cotangent::mixed;
    planner.add(p);
    ++i;
  }
  return planner.take();
}

std::size_t kept_sample(const Problem& problem) { return problem.key % static_cast<std::uint64_t>(problem.shape[0]); }

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  Problem other = c.problem();
  other.key ^= 0x5DEECE66DU;
  Inputs inputs = c.inputs();
  const Inputs others = make_inputs(other);
  if (c.problem().shape[0] > 0) {
    const std::size_t sample = inputs[Role::x].size() / static_cast<std::size_t>(c.problem().shape[0]);
    const std::size_t kept = kept_sample(c.problem());
    for (const Role role : {Role::x, Role::dy})
      for (std::size_t i = 0; i < inputs[role].size(); ++i)
        if (sample == 0 || i / sample != kept) inputs[role][i] = 64.0F * others[role][i];
  }
  return {call_of(c.problem(), c.inputs(), subject), call_of(c.problem(), inputs, subject)};
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  if (c.problem().shape[0] < 2 || c.inputs()[Role::x].empty()) {
    judgement.discarded = true;
    return judgement;
  }
  const auto& claim = subject.kernel.claim;
  std::optional<Demand> demand;
  if (!claim.row_independent) demand = demand_of(c, subject);
  const Role role = output_of(c.problem());
  Inputs only_kept = outcomes[0].outputs;
  const std::size_t sample = only_kept[role].size() / static_cast<std::size_t>(c.problem().shape[0]);
  const std::size_t first = kept_sample(c.problem()) * sample;
  for (std::size_t i = first; i < first + sample; ++i) only_kept[role][i] = outcomes[1].outputs[role][i];
  judge_equal(c, outcomes[0].outputs, only_kept, {&role, 1}, demand ? &*demand->bounds : nullptr,
              "with other batch mates", judgement);
  judgement.elements = static_cast<std::int64_t>(sample);
  return judgement;
}

}  // namespace

const Property batch_mates{
    "batch_mates", "In inference a sample does not depend on its batch mates.", applies, plan, calls, judge};

}  // namespace normgate
