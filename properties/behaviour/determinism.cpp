// The same call gives the same bits: three times, once after a call with other data (which a kernel with plans runs on
// the same plan), once after a call of another description (a plan of its own), and once more. What a kernel keeps from
// one call to the next, in a plan or elsewhere, shows. Precondition: the kernel does not declare itself not
// deterministic.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_primary(subject) && subject.kernel.claim.deterministic; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "determinism");
  std::size_t i = 0;
  for (const std::int64_t length : planner.lengths(5003, 3)) {
    Recipe recipe;
    recipe.length = length;
    recipe.kappa = i % 2 == 0 ? 1 : 100;
    recipe.layouts = i % 4 == 1;
    planner.add(recipe);
    ++i;
  }
  // Races need threads and enough work to share out.
  if (subject.kernel.max_threads > 1)
    for (const auto& [length, groups] :
         {std::pair<std::int64_t, std::int64_t>{64, 200}, {768, 33}, {5, 3001}, {9000, 3}})
      for (const std::int32_t threads : {2, 4}) {
        Recipe recipe;
        recipe.length = length;
        recipe.groups = groups;
        recipe.threads = threads;
        planner.add(recipe);
      }
  return planner.take();
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  Problem other_data = c.problem();
  other_data.key += 1;
  other_data.values = {};
  Problem other_plan = other_data;
  other_plan.eps = 2 * c.problem().eps + 1;
  const auto same = call_of(c.problem(), c.inputs(), subject);
  std::vector<runner::Call> result{call_of(other_data, make_inputs(other_data), subject), same,
                                   call_of(other_plan, make_inputs(other_plan), subject), same, same};
  // Counters and pools in a kernel run over some time.
  if (element_count(c.problem().shape) <= 8) result.resize(300, same);
  return result;
}

Judgement judge(const Case& c, const Subject&, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const auto roles = written(c.problem(), output_roles);
  judge_equal(c, outcomes[3].outputs, outcomes[1].outputs, roles, nullptr, "on the plan of a call with other data",
              judgement);
  for (std::size_t again = 4; again < outcomes.size() && !judgement.violation; ++again)
    judge_equal(c, outcomes[3].outputs, outcomes[again].outputs, roles, nullptr, "when called again", judgement);
  return judgement;
}

}  // namespace

const Property determinism{"determinism", "The same call gives the same bits.", applies, plan, calls, judge};

}  // namespace normgate
