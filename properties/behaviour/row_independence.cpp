// A group's result does not depend on the values of the other groups, nor on how many samples there are.
//
// One group is kept, all others get other data (a million times larger, too): the kept group's elements of y, or of dx,
// must have the same bits iff the kernel promises row_independent, else differ by at most the sum of both bounds (the
// truth is the same). Then, for groups inside one sample, samples are appended: bits iff batch_invariant, else bounds.
// What backward is handed of the other groups' statistics is of their data before they are enlarged, if at all: it is
// none of the kept group's business. Precondition: training, at least two groups.
#include <algorithm>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

// How many samples are appended. A kernel may change its blocks at any number of groups: short groups meet many more.
std::int64_t appended_samples(const Problem& problem) {
  constexpr std::int64_t most_elements = 1 << 18;
  constexpr std::array<std::int64_t, 8> many{3, 4095, 14, 1023, 257, 62, 2051, 127};
  const std::int64_t wanted = many[problem.key % many.size()];
  const std::int64_t sample = problem.shape[1] * problem.shape[2] * problem.shape[3];
  return sample <= most_elements / 4096 && wanted * sample <= most_elements ? wanted : 3;
}

// What a problem has for each group or element, and may differ in the other groups.
constexpr Role grouped_roles[] = {Role::x, Role::y, Role::dy, Role::mean, Role::stat};

bool applies(const Subject& subject) { return is_primary(subject) && is_training(subject.phase); }

// What is compared.
Role output_of(const Problem& problem) { return is_backward(problem.phase) ? Role::dx : Role::y; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "row_independence");
  std::size_t i = 0;
  for (const std::int64_t length : planner.lengths(2100, 3)) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = 2 + static_cast<std::int64_t>(i % 6);
    recipe.kappa = i % 2 == 0 ? 1 : 30;
    recipe.running = 0;
    planner.add(recipe);
    ++i;
  }
  for (const std::int64_t groups : {17, 64, 255}) {
    Recipe recipe;
    recipe.length = 24;
    recipe.groups = groups;
    recipe.running = 0;
    planner.add(recipe);
  }
  return planner.take();
}

std::int64_t kept_group(const Case& c, const Subject& subject) {
  const auto count = Groups(c.problem().shape, subject.row).count();
  return static_cast<std::int64_t>(c.problem().key % static_cast<std::uint64_t>(count));
}

bool inside_a_sample(const VariantRow& row) { return !row.reduced.has(Axis::n); }

Problem with_more_samples(Problem problem) {
  problem.shape[0] += appended_samples(problem);
  return problem;
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  const Groups groups(c.problem().shape, subject.row);
  if (groups.count() == 0) return result;
  Problem other = c.problem();
  other.key ^= 0x5DEECE66DU;
  Inputs inputs = c.inputs();
  const Inputs others = make_inputs(other);
  const std::int64_t kept = kept_group(c, subject);
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    if (q == kept) continue;
    const float factor = q % 2 == 0 ? 1.0F : 0x1p20F;
    for (const Role role : grouped_roles) {
      if (inputs[role].empty()) continue;
      if (role == Role::mean || role == Role::stat) {
        inputs[role][static_cast<std::size_t>(q)] = others[role][static_cast<std::size_t>(q)];
        continue;
      }
      if (role == Role::dy && !c.problem().layout[Role::dy].broadcast.empty()) continue;
      groups.for_each(q, [&](std::int64_t i, const Shape&) {
        inputs[role][static_cast<std::size_t>(i)] = others[role][static_cast<std::size_t>(i)] * factor;
      });
    }
  }
  result.push_back(call_of(c.problem(), inputs, subject));
  if (!inside_a_sample(subject.row)) return result;
  Problem more = with_more_samples(c.problem());
  // Values that are written out are those of the samples at hand.
  for (const Role role : grouped_roles) more.values[role].clear();
  Inputs longer = make_inputs(more);
  // N is the outermost logical axis, so that the samples of the case come first.
  for (const Role role : grouped_roles)
    std::copy(c.inputs()[role].begin(), c.inputs()[role].end(), longer[role].begin());
  for (const Role role : {Role::gamma, Role::beta, Role::dgamma, Role::dbeta}) longer[role] = c.inputs()[role];
  result.push_back(call_of(more, longer, subject));
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Groups groups(c.problem().shape, subject.row);
  if (groups.count() < 2 || outcomes.size() < 2) {
    judgement.discarded = true;
    return judgement;
  }
  const auto& claim = subject.kernel.claim;
  std::optional<Demand> demand;
  if (!claim.row_independent || !claim.batch_invariant) demand = demand_of(c, subject);
  const Role role = output_of(c.problem());
  // The other groups are put back to what the first result says, so that only the kept group is compared.
  const std::int64_t kept = kept_group(c, subject);
  Inputs only_kept = outcomes[0].outputs;
  groups.for_each(kept, [&](std::int64_t i, const Shape&) {
    only_kept[role][static_cast<std::size_t>(i)] = outcomes[1].outputs[role][static_cast<std::size_t>(i)];
  });
  judge_equal(c, outcomes[0].outputs, only_kept, {&role, 1}, claim.row_independent ? nullptr : &*demand->bounds,
              "with other values in the other groups", judgement);
  if (outcomes.size() > 2) {
    Inputs first_samples = outcomes[0].outputs;
    const auto& longer = outcomes[2].outputs[role];
    std::copy_n(longer.begin(), first_samples[role].size(), first_samples[role].begin());
    judge_equal(c, outcomes[0].outputs, first_samples, {&role, 1}, claim.batch_invariant ? nullptr : &*demand->bounds,
                "with more samples in the batch", judgement);
  }
  judgement.elements -= static_cast<std::int64_t>(only_kept[role].size()) - groups.size();
  return judgement;
}

}  // namespace

const Property row_independence{"row_independence",
                                "A group's result does not depend on the other groups, as far as the kernel promises.",
                                applies,
                                plan,
                                calls,
                                judge};

}  // namespace normgate
