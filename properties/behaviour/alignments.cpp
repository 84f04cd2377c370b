// Each tensor alone may stand at any element boundary. One tensor is moved by 1 to 16 elements (by multiples of the
// alignment that the kernel declares, if it does) while the others stay where they are, at the right fence and at the
// left one in turn; each result lies within the bound of the one truth, and has the same bits as without the move iff
// the kernel promises layout_invariant. Sixteen elements are the longest vectors' alignment. Preconditions: none.
#include <algorithm>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

constexpr std::int32_t most = 16;

bool applies(const Subject& subject) { return is_primary(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "alignments");
  // Multiples of the widths, where aligned loads are tempting, and lengths that are not.
  std::vector<std::int64_t> lengths{32, 45};
  if (effort != Effort::quick) lengths.insert(lengths.end(), {16, 64, 71, 96, 129, 260});
  std::uint64_t i = 0;
  for (const std::int64_t length : lengths) {
    Problem p;
    p.shape = shape_with(subject.row, length, 2, 0);
    p.saved = p.running = true;
    p.fence = i % 2 == 0 ? Fence::right : Fence::left;
    if (i % 3 == 2) p.cotangent = Cotangent::mixed;
    planner.add(p);
    if (effort == Effort::quick) continue;
    p.shape = shape_with(subject.row, length, 3, 5 + i);
    p.fence = i % 2 == 0 ? Fence::left : Fence::right;
    p.gamma = i % 3 != 0;
    p.beta = i % 3 == 0;
    planner.add(p);
    ++i;
  }
  return planner.take();
}

struct Move {
  Role role;
  std::int32_t by;
};
std::vector<Move> moves(const Problem& problem, const Subject& subject) {
  std::vector<Move> result;
  const std::int32_t step = std::max(1, subject.kernel.alignment / 4);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!use_of(problem, role).present() || (problem.in_place && role == in_place_output(problem.phase))) continue;
    for (std::int32_t by = step; by <= std::max(most, step); by += step) result.push_back({role, by});
  }
  return result;
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  const runner::Call plain = call_of(c.problem(), c.inputs(), subject);
  std::vector<runner::Call> result{plain};
  for (const Move& move : moves(c.problem(), subject)) {
    result.push_back(plain);
    result.back().moved[move.role] = move.by;
    result.back().may_be_refused = true;
  }
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  judgement.declined = declined_variations(outcomes);
  const auto& claim = subject.kernel.claim;
  const Demand demand = demand_of(c, subject);
  const auto roles = written(c.problem(), output_roles);
  const auto moved = moves(c.problem(), subject);
  for (std::size_t j = 0; j < outcomes.size(); ++j) {
    if (outcomes[j].status != runner::Status::ok) continue;
    const bool before = judgement.violation.has_value();
    judge_within_bounds(c, claim, demand, outcomes[j].outputs, roles, judgement);
    if (claim.layout_invariant && claim.deterministic && j > 0)
      judge_equal(c, outcomes[0].outputs, outcomes[j].outputs, roles, nullptr, "at another alignment", judgement);
    if (!before && judgement.violation && j > 0)
      judgement.violation->at += "  with " + std::string(name_of(moved[j - 1].role)) + " moved by " +
                                 std::to_string(moved[j - 1].by * 4) + " bytes";
  }
  return judgement;
}

}  // namespace

const Property alignments{
    "alignments", "Each tensor alone may stand at any alignment that the kernel allows.", applies, plan, calls, judge};

}  // namespace normgate
