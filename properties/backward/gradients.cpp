// Every element of dx, dgamma and dbeta lies within the bound that follows from the claim and this very input
// (reference/bounds: the derivation stands there), around the function that the kernel declares to compute of handed
// statistics, or around the derivative of the forward (demand_of). Preconditions: none on the data; elements whose
// bound is infinite are counted, not judged.
#include "properties/corpus/corpus.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_backward(subject.phase) && is_new_to_backward(subject); }

// Up to `dense` each length meets a large |mean|/sigma, a small one with another scale, and one of the other profiles;
// a longer length meets one of the three, or a needle. Cotangents, handed statistics and options are drawn.
void add_lengths(Planner& planner, std::int64_t most, std::int64_t one_in, std::size_t round) {
  constexpr std::int64_t dense = 68;
  constexpr std::array profiles{Profile::drift,         Profile::outlier_channels,   Profile::exact_sum,
                                Profile::near_constant, Profile::parameter_rounding, Profile::exact};
  constexpr std::array large_kappas{100.0, 1e3, 1e4, 30.0, 3e5};
  constexpr std::array small_kappas{1.0, 0.0, 3.0, 10.0};
  constexpr std::array scales{0, -20, 10, 3, -45, 40, -2};
  std::size_t i = round;
  for (const std::int64_t length : planner.lengths(most, one_in)) {
    for (std::size_t family = 0; family < 4; ++family) {
      if (length <= dense ? family == 3 : family != i % 4) continue;
      Recipe recipe;
      recipe.length = length;
      if (length > 384) recipe.groups = length < 2048 ? 1 + static_cast<std::int64_t>(i % 2) : 1;
      recipe.layouts = (i / 4 + family) % 3 == 2;
      switch (family) {
        case 0:
          recipe.kappa = large_kappas[i % large_kappas.size()];
          break;
        case 1:
          recipe.kappa = small_kappas[i % small_kappas.size()];
          recipe.scale = scales[i % scales.size()];
          break;
        case 2:
          recipe.profile = profiles[(i / 4 + i) % profiles.size()];
          recipe.kappa = 20;
          recipe.level = 3;
          break;
        default:
          // A lost element shows most where it is all that the group has, in x or in dy.
          recipe.profile = Profile::needle;
          if (i % 8 < 4) recipe.cotangent = Cotangent::unit;
          break;
      }
      planner.add(recipe);
    }
    ++i;
  }
}

// Parameter gradients are sums over groups, too: numbers of them around cores, blocks of rows and 16-bit indices.
void add_counts(Planner& planner) {
  using Count = std::pair<std::int64_t, std::int64_t>;
  std::vector<Count> counts{{64, 9}, {20, 49}, {5, 128}};
  if (planner.primary())
    counts.insert(counts.end(), {{33, 17}, {8, 65}, {17, 257}, {7, 1025}, {2, 5000}, {65, 130}, {768, 11}, {256, 17}});
  if (planner.effort() != Effort::quick && planner.primary()) counts.insert(counts.end(), {{512, 129}, {3, 65536 + 7}});
  for (const auto& [length, groups] : counts) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.kappa = 3;
    recipe.gamma = recipe.beta = 1;
    planner.add(recipe);
  }
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "gradients");
  // In inference an element is a product, and only the parameters' gradients are sums over a group.
  const std::int64_t one_in = is_training(subject.phase) || effort != Effort::quick ? 1 : 2;
  const std::int64_t longest = planner.primary() ? 8200 : 2100;
  // Half of all elements are in the few groups beyond 8200: one round in four has them.
  for (std::int64_t round = 0; round < planner.by_effort(1, 4, 12); ++round)
    add_lengths(planner, effort == Effort::quick || round % 4 != 0 ? longest : 70000, one_in,
                static_cast<std::size_t>(round));
  // Every cotangent with either kind of handed statistics, whatever is drawn above.
  for (const Cotangent cotangent : {Cotangent::random, Cotangent::ones, Cotangent::pooled, Cotangent::normalized,
                                    Cotangent::mixed, Cotangent::unit})
    for (const Handed handed : {Handed::nearest, Handed::shifted})
      for (const std::int64_t length : {24, 257}) {
        Recipe recipe;
        recipe.length = length;
        recipe.groups = length == 24 ? 3 : 1;
        recipe.kappa = length == 24 ? 1 : 40;
        recipe.saved = 1;
        recipe.handed = handed;
        recipe.cotangent = cotangent;
        recipe.layouts = length == 24;
        planner.add(recipe);
      }
  // What a sum or a mean over positions leaves as dy: expanded in memory, not written out.
  for (const Shape& shape : {Shape{2, 1, 5, 7}, Shape{3, 2, 4, 9}, Shape{1, 1, 33, 5}}) {
    Problem p;
    p.shape = shape;
    p.saved = true;
    p.cotangent = Cotangent::pooled;
    p.layout[Role::dy].broadcast = {Axis::s};
    planner.add(p);
    p.cotangent = Cotangent::ones;
    p.layout[Role::dy].broadcast = {Axis::n, Axis::g, Axis::k, Axis::s};
    planner.add(p);
    p.layout[Role::dy].broadcast = {Axis::g, Axis::k};
    planner.add(p);
  }
  planner.add_subsets();
  planner.add_shapes({Profile::conditioned});
  add_counts(planner);
  planner.add_count_residues();
  if (subject.kernel.max_threads > 1) planner.add_threads();
  if (planner.primary())
    for (const std::int64_t length : {16384 + 3, 65536 + 9}) {
      if (length > 65536 && !is_training(subject.phase) && effort == Effort::quick) continue;
      Recipe recipe;
      recipe.length = length;
      recipe.groups = 1;
      recipe.kappa = 20;
      recipe.gamma = recipe.beta = 1;
      recipe.cotangent = Cotangent::random;
      planner.add(recipe);
    }
  // Nothing to sum: the gradients of the parameters are 0, or what they are added to.
  for (const Shape& shape : {Shape{0, 1, 4, 3}, Shape{3, 1, 4, 0}, Shape{2, 0, 3, 4}}) {
    Problem empty;
    empty.shape = shape;
    empty.saved = true;
    planner.add(empty);
  }
  planner.add_tails();
  add_corpus(planner, subject);
  // Special values have a property of their own.
  planner.cover([](Profile profile) { return profile != Profile::special; });
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs,
                      written(c.problem(), gradient_roles), judgement);
  judgement.fitting_uses = fitting_uses(c, subject, outcomes[0].outputs);
  return judgement;
}

}  // namespace

const Property gradients{
    "gradients", "Every element of dx, dgamma and dbeta lies within the bound that follows from claim and input.",
    applies,     plan,
    one_call,    judge};

}  // namespace normgate
