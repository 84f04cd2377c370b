// Turning the sign of x turns the sign of what gamma multiplies: y goes to 2β - y, the mean to its negative, and the
// deviation stays as it is.
//
// Round to nearest is symmetric, and every claim that there is (two-pass, one-pass and Welford sums in any order that
// the data do not choose, centred and folded forms, roots, 1+w, conversions, subnormals kept or flushed) is made of
// operations f with f(-a, …) = -f(a, …) where a is what changes sign; squares do not see it. So with x, β and the
// running or given mean all turned, every sound kernel whose runs agree gives -y, bit for bit but for the sign of zero:
// (-P) + (-β) = -(P + β), (-x)a + ((-β) - (-m)a) = -(x a + (β - m a)), keep·(-old) + take·(-mean) likewise. That is
// demanded of all but those that declare that two runs may differ. Where β stays as it is, P + β and -P + β round
// differently: the result lies within its bound of the truth, which with that of the plain problem is at most the sum
// of both around 2β - y. Preconditions: none on the data; NaN is its own negative.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

enum Which : std::size_t { turned, around_beta };

bool applies(const Subject& subject) { return is_forward(subject.phase); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "sign_symmetry");
  constexpr std::array profiles{Profile::conditioned, Profile::needle,   Profile::conditioned,  Profile::drift,
                                Profile::exact_sum,   Profile::constant, Profile::near_constant};
  constexpr std::array kappas{1.0, 0.0, 1000.0, 8.0, 40.0};
  constexpr std::array scales{0, -40, 5, -60, 30, -8};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 4, 10); ++round)
    for (const std::int64_t length : planner.lengths(2100, 4)) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 1000 ? 2 : 0;
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = kappas[i % kappas.size()];
      recipe.level = 3;
      recipe.scale = scales[i % scales.size()];
      // A large eps leaves small outputs small.
      if (i % 3 == 0) recipe.eps = 1;
      if (i % 4 < 2) recipe.beta = 0;
      recipe.layouts = i % 5 == 1;
      planner.add(recipe);
      ++i;
    }
  planner.add_shapes({Profile::conditioned});
  return planner.take();
}

void turn(std::vector<float>& values) {
  for (float& value : values) value = -value;
}

const Case& with(const Case& c, std::size_t which) {
  return c.derived(which, [&] {
    Inputs inputs = c.inputs();
    turn(inputs[Role::x]);
    // State and given means turn along: a kernel may shift its sums by them.
    turn(inputs[Role::running_mean]);
    turn(inputs[Role::mean]);
    if (which == turned) turn(inputs[Role::beta]);
    return Case(c.problem(), std::move(inputs));
  });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  result.push_back(call_of(c.problem(), with(c, turned).inputs(), subject));
  if (c.problem().beta) result.push_back(call_of(c.problem(), with(c, around_beta).inputs(), subject));
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  const auto& claim = subject.kernel.claim;
  constexpr Role odd_roles[] = {Role::y, Role::mean, Role::running_mean};
  constexpr Role even_roles[] = {Role::stat, Role::running_var};
  constexpr Role roles[] = {Role::y, Role::mean, Role::running_mean, Role::stat, Role::running_var};
  if (claim.deterministic) {
    Inputs expected = outcomes[0].outputs;
    for (const Role role : odd_roles) turn(expected[role]);
    judge_equal(c, expected, outcomes[1 + turned].outputs, written(problem, odd_roles), nullptr,
                "with every sign turned", judgement);
    judge_equal(c, expected, outcomes[1 + turned].outputs, written(problem, even_roles), nullptr,
                "with every sign turned", judgement);
  } else {
    judge_within_bounds(with(c, turned), claim, demand_of(with(c, turned), subject), outcomes[1 + turned].outputs,
                        written(problem, roles), judgement);
  }
  if (problem.beta)
    judge_within_bounds(with(c, around_beta), claim, demand_of(with(c, around_beta), subject),
                        outcomes[1 + around_beta].outputs, written(problem, roles), judgement);
  return judgement;
}

}  // namespace

const Property sign_symmetry{"sign_symmetry", "Turning the sign of x turns y around beta and the mean around zero.",
                             applies,         plan,
                             calls,           judge};

}  // namespace normgate
