// A kernel touches its tensors and nothing else: it reads no byte outside them, writes every output element and no
// other byte, leaves its inputs alone and the floating-point environment as it was.
//
// Data stand flush against the right fence, then the left one, then at misalignments; slack, gaps and padding are
// filled once with NaN and once with huge numbers: a deterministic kernel must give equal bits, so a stray read inside
// the page shows as well. What the worker finds (faults, changed red zones, unwritten elements, late writes) is a
// violation.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_primary(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "memory");
  std::int32_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 4); ++round)
    for (const std::int64_t length : planner.lengths(8200)) {
      Recipe recipe;
      recipe.length = length;
      recipe.layouts = i % 2 == 1;
      planner.add(recipe);
      ++i;
    }
  // Every misalignment within a vector, at both fences; empty tensors; more rows than any core count or block of rows.
  for (std::int32_t misalign = 1; misalign < 16; ++misalign) {
    Problem p;
    p.shape = shape_with(subject.row, 37 + misalign, 3, static_cast<std::uint64_t>(misalign));
    p.misalign = misalign;
    p.skew = misalign % 4;
    // Fast paths without parameters align differently.
    p.gamma = misalign % 3 != 0;
    p.beta = misalign % 3 == 1;
    p.fence = misalign % 2 == 0 ? Fence::right : Fence::left;
    p.saved = p.running = true;
    if (misalign % 4 == 2) p.cotangent = Cotangent::ones;
    planner.add(p);
  }
  for (const Shape& shape : {Shape{0, 1, 4, 3}, Shape{2, 1, 3, 0}, Shape{2, 0, 3, 4}, Shape{2, 1, 0, 4}}) {
    Problem p;
    p.shape = shape;
    p.running = true;
    planner.add(p);
  }
  for (const std::int64_t rows : {49, 130, 300, 1025}) {
    Problem p;
    p.shape = shape_with(subject.row, 9, rows, 0);
    p.saved = true;
    planner.add(p);
  }
  return planner.take();
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  Problem left = c.problem();
  left.fence = left.fence == Fence::right ? Fence::left : Fence::right;
  return {call_of(c.problem(), c.inputs(), subject, runner::Filling::nan),
          call_of(c.problem(), c.inputs(), subject, runner::Filling::huge),
          call_of(left, c.inputs(), subject, runner::Filling::nan)};
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const auto roles = written(c.problem(), output_roles);
  for (const auto& outcome : outcomes)
    for (const auto& finding : outcome.findings) {
      if (judgement.violation) continue;
      Violation violation;
      violation.at = std::string(name_of(finding.role));
      violation.got = finding.sentence;
      violation.want = "its own elements and nothing else touched";
      switch (finding.kind) {
        case runner::FindingKind::unwritten:
          violation.want = "every output element written";
          violation.diagnosis = "unwritten output";
          break;
        case runner::FindingKind::environment:
          violation.want = "rounding mode, FTZ/DAZ and exception masks as before the call";
          violation.diagnosis = "environment not restored";
          break;
        case runner::FindingKind::input_changed:
          violation.want = "inputs unchanged";
          violation.diagnosis = "changed input";
          break;
        case runner::FindingKind::late_write:
          violation.want = "no write after the call has returned";
          violation.diagnosis = "late write";
          break;
        case runner::FindingKind::wrote_outside:
          violation.diagnosis = "write outside the tensor";
          break;
        case runner::FindingKind::fault:
          violation.diagnosis = "memory fault";
          break;
      }
      judgement.violation = std::move(violation);
    }
  if (judgement.violation) return judgement;
  if (subject.kernel.claim.deterministic) {
    judge_equal(c, outcomes[0].outputs, outcomes[1].outputs, roles, nullptr,
                "with other contents in the bytes around the tensors", judgement);
    if (judgement.violation) judgement.violation->diagnosis = "stray read";
  } else {
    for (const Role role : roles) judgement.elements += static_cast<std::int64_t>(outcomes[0].outputs[role].size());
  }
  // An empty problem has nothing to compare, and coming back from it without a finding is what is asked.
  if (judgement.elements == 0) judgement.elements = 1;
  return judgement;
}

}  // namespace

const Property memory{"memory", "The kernel touches its tensors and nothing else, and writes all of its outputs.",
                      applies,  plan,
                      calls,    judge};

}  // namespace normgate
