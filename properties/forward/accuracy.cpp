// Every element of y lies within the bound that follows from the claim and this very input (reference/bounds: the
// derivation stands there). Preconditions: none on the data; elements whose bound is infinite are counted, not judged.
#include "properties/corpus/corpus.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_forward(subject.phase); }

// Each length meets a large |mean|/sigma (the mean's error, one-pass variance), a small one with another scale and
// power-of-two offsets of it, and one of the other profiles; options are drawn.
void add_lengths(Planner& planner, std::int64_t most) {
  constexpr std::array profiles{Profile::drift, Profile::outlier_channels, Profile::near_constant,
                                Profile::parameter_rounding, Profile::exact_sum};
  constexpr std::array large_kappas{100.0, 1e3, 1e4, 30.0, 3e5};
  constexpr std::array small_kappas{1.0, 0.0, 3.0, 10.0};
  constexpr std::array scales{0, -20, 10, 3, -45, 40, -2};
  std::size_t i = 0;
  for (const std::int64_t length : planner.lengths(most)) {
    Recipe large;
    large.length = length;
    large.kappa = large_kappas[i % large_kappas.size()];
    large.layouts = i % 3 == 2;
    planner.add(large);
    Recipe small;
    small.length = length;
    small.kappa = small_kappas[i % small_kappas.size()];
    small.scale = scales[i % scales.size()];
    small.layouts = i % 3 == 1;
    planner.add(small);
    Recipe other;
    other.length = length;
    other.profile = profiles[i % profiles.size()];
    other.kappa = 20;
    other.level = 3;
    other.layouts = i % 3 == 0;
    planner.add(other);
    if (length > 68) {
      // A lost element shows most where it is all that the group has.
      Recipe needle;
      needle.length = length;
      needle.profile = Profile::needle;
      planner.add(needle);
    }
    ++i;
  }
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "accuracy");
  // Half of all elements are in the few groups beyond 8200: one round in four has them.
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 12); ++round)
    add_lengths(planner, effort == Effort::quick || round % 4 != 0 ? 8200 : 70000);
  planner.add_subsets();
  planner.add_shapes({Profile::conditioned, Profile::outlier_channels});
  planner.add_counts();
  planner.add_count_residues();
  if (subject.kernel.max_threads > 1) planner.add_threads();
  if (planner.primary())
    for (const std::int64_t length : {16384 + 3, 24576 + 5437, 65536 + 9}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = 1;
      recipe.kappa = 20;
      planner.add(recipe);
    }
  planner.add_tails();
  // A parameter of 0 is one, first among its fellows or not.
  Problem zero;
  zero.shape = shape_with(subject.row, 3, 2, 0);
  for (const Role role : {Role::gamma, Role::beta}) {
    std::vector<float>& values = zero.values[role];
    const auto channels = element_count(restricted(zero.shape, axes_of(role, subject.row)));
    for (std::int64_t i = 0; i < channels; ++i) values.push_back(static_cast<float>(i % 3));
  }
  planner.add(zero);
  add_corpus(planner, subject);
  // Special values have a property of their own.
  planner.cover([](Profile profile) { return profile != Profile::special; });
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  constexpr Role roles[] = {Role::y};
  judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs, roles, judgement);
  return judgement;
}

}  // namespace

const Property accuracy{"accuracy", "Every element of y lies within the bound that follows from claim and input.",
                        applies,    plan,
                        one_call,   judge};

}  // namespace normgate
