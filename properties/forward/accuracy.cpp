// Every element of y lies within the bound that follows from the claim and this very input (reference/bounds: the
// derivation stands there). Preconditions: none on the data; elements whose bound is infinite are counted, not judged.
#include "properties/corpus/corpus.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject&) { return true; }

// Each length meets a large |mean|/sigma (the mean's error, one-pass variance), a small one with another scale and
// power-of-two offsets of it, and one of the other profiles; options are drawn.
void add_lengths(Planner& planner, std::int64_t most) {
  constexpr std::array profiles{Profile::needle, Profile::outlier_channels, Profile::near_constant,
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
    ++i;
  }
}

// Fast paths are chosen by size and by what is absent: every subset of gamma and beta at the sizes that have one.
void add_subsets(Planner& planner) {
  for (const std::int64_t length : {4, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 2048, 4096})
    for (const int subset : {0, 1, 2, 3}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 1000 ? 2 : 3;
      recipe.gamma = subset & 1;
      recipe.beta = subset >> 1;
      recipe.kappa = 2;
      recipe.saved = subset % 2 == 0;
      planner.add(recipe);
    }
}

// Counts of groups around numbers of cores, blocks of rows and 16-bit indices.
void add_counts(Planner& planner, bool many) {
  for (const auto& [length, groups] : {std::pair<std::int64_t, std::int64_t>{3, 49},
                                       {8, 65},
                                       {1, 257},
                                       {5, 128},
                                       {20, 33},
                                       {33, 17},
                                       {7, 1025},
                                       {64, 100},
                                       {2, 5000}}) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.kappa = 3;
    planner.add(recipe);
  }
  if (!many) return;
  Recipe recipe;
  recipe.length = 3;
  recipe.groups = 65536 + 7;
  recipe.kappa = 3;
  planner.add(recipe);
}

// Shapes in which extents that a kernel may mix up all differ, or are 1.
void add_shapes(Planner& planner) {
  for (const Shape& shape :
       {Shape{1024, 1, 2, 1}, Shape{64, 1, 96, 1}, Shape{2, 1, 3, 16}, Shape{2, 2, 3, 7}, Shape{3, 4, 5, 1},
        Shape{1, 1, 65, 100}, Shape{2, 1, 127, 9}, Shape{1, 6, 1, 35}, Shape{2, 3, 4, 5}, Shape{1, 8, 4, 35},
        Shape{4, 1, 32, 1}, Shape{2, 16, 3, 9}, Shape{1, 1, 1, 1}, Shape{1, 1, 8, 1}}) {
    for (const Profile profile : {Profile::conditioned, Profile::outlier_channels}) {
      Problem problem;
      problem.shape = shape;
      problem.profile = profile;
      problem.kappa = 5;
      problem.saved = problem.running = true;
      problem.given = profile == Profile::conditioned ? Given::running : Given::saved;
      planner.add(problem);
      problem.layout[Role::x].order = problem.layout[Role::y].order = {Axis::n, Axis::s, Axis::g, Axis::k};
      planner.add(problem);
    }
  }
}

void add_threads(Planner& planner) {
  std::int32_t threads = 2;
  for (const std::int64_t length : {1, 5, 64, 100, 768, 9000}) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = length > 1000 ? 3 : 37;
    recipe.kappa = 10;
    recipe.threads = threads;
    planner.add(recipe);
    threads = threads % 5 + 2;
  }
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "accuracy");
  const std::int64_t most = effort == Effort::quick ? 8200 : 70000;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 12); ++round) add_lengths(planner, most);
  if (planner.primary()) {
    add_subsets(planner);
    add_shapes(planner);
    if (subject.kernel.max_threads > 1) add_threads(planner);
    for (const std::int64_t length : {16384 + 3, 65536 + 9}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = 1;
      recipe.kappa = 20;
      planner.add(recipe);
    }
  }
  add_counts(planner, planner.primary());
  add_corpus(planner, subject);
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const auto bounds = forward_bounds(c.problem(), c.inputs(), c.truth(), subject.kernel.claim);
  constexpr Role roles[] = {Role::y};
  judge_within_bounds(c, subject.kernel.claim, bounds, outcomes[0].outputs, roles, judgement);
  return judgement;
}

}  // namespace

const Property accuracy{"accuracy", "Every element of y lies within the bound that follows from claim and input.",
                        applies,    plan,
                        one_call,   judge};

}  // namespace normgate
