// The number of threads changes no result beyond its bound: each result lies within the bound of the one truth (which
// allows every way to share out the work: it counts the additions on the longest path that is claimed), and has the
// same bits as the result on one thread iff the kernel promises thread_invariant and does not declare itself not
// deterministic. Shapes have fewer groups than threads, as many, one more, and numbers that do not divide; and groups
// shorter than the number of threads, which a kernel may share out within. Each is tried in place and not.
// Preconditions: the kernel may use more than one thread.
#include <algorithm>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_primary(subject) && subject.kernel.max_threads > 1; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "threads");
  struct Work {
    std::int64_t length, groups;
  };
  constexpr std::array work{Work{1, 1},   Work{5, 1},    Work{4099, 1}, Work{24, 2},  Work{7, 3},    Work{64, 4},
                            Work{3, 5},   Work{33, 7},   Work{768, 2},  Work{16, 9},  Work{2, 17},   Work{100, 33},
                            Work{1, 64},  Work{9, 65},   Work{257, 6},  Work{6, 127}, Work{1030, 5}, Work{13, 257},
                            Work{2, 511}, Work{70, 130}, Work{9000, 3}, Work{128, 8}, Work{8, 12}};
  constexpr std::array<std::int32_t, 11> counts{2, 8, 3, 64, 4, 5, 16, 7, 6, 33, 256};
  std::size_t i = 0;
  const auto rounds = static_cast<std::size_t>(planner.by_effort(2, 6, 11));
  for (std::size_t round = 0; round < rounds; ++round)
    for (const auto& [length, groups] : work) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = groups;
      recipe.kappa = i % 2 == 0 ? 1 : 10;
      recipe.saved = i % 3 == 0 ? 0 : 1;
      recipe.layouts = i % 4 == 3;
      // Every count meets every shape as rounds go by: 11 and 23 have no common divisor.
      recipe.threads = std::min(counts[i % counts.size()], subject.kernel.max_threads);
      planner.add(recipe);
      // A kernel of few threads meets the few in turn.
      if (recipe.threads == subject.kernel.max_threads && subject.kernel.max_threads > 2 && i % 2 == 0) {
        recipe.threads = 2 + static_cast<std::int32_t>(i / 2) % (subject.kernel.max_threads - 1);
        planner.add(recipe);
      }
      ++i;
    }
  // One row that is long enough to be split, by numbers of threads that leave a remainder.
  for (const std::int32_t threads : {3, 5, 6, 7, 12}) {
    Recipe recipe;
    recipe.length = 1030;
    recipe.groups = 1;
    recipe.threads = std::min(threads, subject.kernel.max_threads);
    planner.add(recipe);
  }
  return planner.take();
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  Problem one = c.problem();
  one.threads = 1;
  std::vector<runner::Call> result{call_of(one, c.inputs(), subject), call_of(c.problem(), c.inputs(), subject)};
  // In place as well, or not: what one thread has written, another may still have to read.
  Problem other = c.problem();
  other.in_place = !other.in_place;
  if (other.in_place) other.layout[in_place_output(other.phase)] = other.layout[in_place_input(other.phase)];
  other = inside_claim(other, subject);
  if (check(other).empty()) {
    result.push_back(call_of(other, c.inputs(), subject));
    result.back().may_be_refused = true;
  }
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const auto& claim = subject.kernel.claim;
  const Demand demand = demand_of(c, subject);
  const auto roles = written(c.problem(), output_roles);
  for (std::size_t j = 0; j < outcomes.size(); ++j) {
    if (outcomes[j].status != runner::Status::ok) continue;
    const bool before = judgement.violation.has_value();
    judge_within_bounds(c, claim, demand, outcomes[j].outputs, roles, judgement);
    // The third call has another layout as well, whose bits are not promised.
    if (claim.thread_invariant && claim.deterministic && j == 1)
      judge_equal(c, outcomes[0].outputs, outcomes[j].outputs, roles, nullptr, "on several threads", judgement);
    if (!before && judgement.violation)
      judgement.violation->at += "  on " + std::to_string(j == 0 ? 1 : c.problem().threads) + " threads";
  }
  return judgement;
}

}  // namespace

const Property threads{
    "threads", "The number of threads changes no result beyond its bound, and no bit where the kernel promises it.",
    applies,   plan,
    calls,     judge};

}  // namespace normgate
