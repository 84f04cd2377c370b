// A result does not depend on the calls before it. One call (A) is repeated among others: with other data and another
// step on the same plan (B), with another eps and momentum (C: a plan of its own, equal shapes), with longer groups (D:
// what a kernel keeps between calls has grown); and on the memory that another call has used, so that what is kept by
// the address of its data is met by other data there. Every result lies within the bound of its own truth, whichever
// came before; results of one call have equal bits unless the kernel declares itself not deterministic.
// Preconditions: none.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

enum Which : std::size_t { first, other_data, other_scalars, longer_groups };

bool applies(const Subject& subject) { return is_primary(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "repeated_calls");
  std::size_t i = 0;
  for (const std::int64_t length : planner.lengths(1100, effort == Effort::quick ? 9 : 3)) {
    Recipe recipe;
    recipe.length = length;
    recipe.kappa = i % 2 == 0 ? 1 : 20;
    recipe.layouts = i % 4 == 1;
    if (i % 3 != 2) recipe.saved = recipe.running = 1;
    planner.add(recipe);
    ++i;
  }
  return planner.take();
}

// The cases of the calls; `first` is the one given.
const Case& case_of(const Case& c, Which which) {
  if (which == first) return c;
  return c.derived(which, [&c, which] {
    Problem p = c.problem();
    p.key ^= 0x9E3779B9U + which;
    p.values = {};
    if (which == other_data) p.step += 1;
    if (which == other_scalars) {
      p.eps = p.eps == 0.25 ? 0.5 : 0.25;
      p.momentum = p.momentum == 0.75 ? 0.25 : 0.75;
    }
    if (which == longer_groups) {
      const VariantRow& row = row_of(p.variant);
      for (std::size_t a = axis_count; a-- > 0;)
        if (row.reduced.has(a)) {
          p.shape[a] += p.shape[a] < 3 ? 2 : 1;
          break;
        }
    }
    return Case(p);
  });
}

// One batch; then, one by one, so that the memory of one is given to the next.
constexpr std::array together{first, other_data, first, other_scalars, first, longer_groups, first};
// The worker takes freed memory in reversed order: places are the same again two calls later.
constexpr std::array apart{first, other_data, other_data, first};

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result;
  for (const Which which : together) {
    const Case& one = case_of(c, which);
    result.push_back(call_of(one.problem(), one.inputs(), subject));
    // What supports says of other scalars or longer groups is none of the case's business.
    result.back().may_be_refused = which == other_scalars || which == longer_groups;
  }
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench& bench) {
  Judgement judgement;
  std::vector<runner::Outcome> all(outcomes.begin(), outcomes.end());
  std::vector<Which> order(together.begin(), together.end());
  for (const Which which : apart) {
    const Case& one = case_of(c, which);
    all.push_back(bench.run_one(one.problem(), one.inputs()));
    order.push_back(which);
  }
  std::array<std::optional<Demand>, longer_groups + 1> demands;
  std::array<const runner::Outcome*, longer_groups + 1> seen{};
  const auto roles = written(c.problem(), output_roles);
  for (std::size_t j = 0; j < all.size(); ++j) {
    if (all[j].status != runner::Status::ok) continue;
    const Which which = order[j];
    const Case& one = case_of(c, which);
    const bool before = judgement.violation.has_value();
    if (!demands[which]) demands[which] = demand_of(one, subject);
    judge_within_bounds(one, subject.kernel.claim, *demands[which], all[j].outputs, roles, judgement);
    if (seen[which] == nullptr)
      seen[which] = &all[j];
    else if (subject.kernel.claim.deterministic)
      judge_equal(one, seen[which]->outputs, all[j].outputs, roles, nullptr, "when called again", judgement);
    if (!before && judgement.violation) {
      std::string history;
      for (std::size_t k = 0; k <= j; ++k) history += "ABCD"[order[k]];
      judgement.violation->at += "  in call " + std::to_string(j + 1) + " of " + history + ": " + print(one.problem());
    }
  }
  return judgement;
}

}  // namespace

const Property repeated_calls{"repeated_calls",
                              "A result does not depend on the calls before it, with other data, scalars or sizes.",
                              applies,
                              plan,
                              calls,
                              judge};

}  // namespace normgate
