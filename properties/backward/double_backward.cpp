// Every element of ddy, dx and dgamma of a double backward lies within the bound that follows from the claim and this
// very input (reference/bounds/second_order.cpp: the derivation stands there), around the second order of the
// definition. Preconditions: the kernel has the phase; elements whose bound is infinite are counted, not judged.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

constexpr Role roles[] = {Role::ddy, Role::dx, Role::dgamma};

bool applies(const Subject& subject) { return subject.phase == Phase::double_backward && is_new_to_backward(subject); }

// The second order is smallest where terms that a kernel may forget are: small eps and small |mean|/sigma show them,
// large eps those that D's distance from sigma makes.
std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "double_backward");
  constexpr std::array kappas{1.0, 0.0, 10.0, 100.0};
  constexpr std::array epsilons{1e-5F, 0.5F, 1e-3F, 4.0F, 1e-12F};
  constexpr std::array profiles{Profile::conditioned, Profile::drift,         Profile::exact_sum,
                                Profile::needle,      Profile::near_constant, Profile::outlier_channels};
  std::size_t i = 0;
  const auto add = [&](std::int64_t length, std::int64_t groups) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.kappa = kappas[i % kappas.size()];
    recipe.eps = static_cast<double>(epsilons[i % epsilons.size()]);
    recipe.profile = i % 3 == 0 ? profiles[(i / 3) % profiles.size()] : Profile::conditioned;
    recipe.level = 3;
    recipe.layouts = i % 4 == 3;
    planner.add(recipe);
    ++i;
  };
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 9); ++round) {
    for (std::int64_t length = 1; length <= 70; ++length) add(length, 0);
    for (const std::int64_t length : {96, 127, 128, 129, 192, 255, 257, 384, 513, 768, 1000, 1025, 2048, 2051, 4099})
      add(length, length > 500 ? 1 : 2);
  }
  // gamma's gradient is a sum over groups, too.
  for (const std::int64_t groups : {9, 17, 33, 130, 257}) add(7, groups);
  for (int subset = 0; subset < 4; ++subset)
    for (const std::int64_t length : {6, 24}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = 3;
      recipe.gamma = subset & 1;
      recipe.beta = subset >> 1;
      recipe.cotangent = Cotangent::random;
      planner.add(recipe);
    }
  // No variance: what is left is linear in ddx, and at the kinks of eps nothing is.
  for (const std::int64_t length : {1, 2, 5, 16, 33})
    for (const float eps : {1e-3F, 2.0F}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = 2;
      recipe.profile = Profile::constant;
      recipe.eps = static_cast<double>(eps);
      planner.add(recipe);
    }
  for (const Shape& shape : {Shape{0, 1, 4, 3}, Shape{3, 1, 4, 0}}) {
    Problem empty;
    empty.shape = shape;
    planner.add(empty);
  }
  return planner.take();
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs, written(c.problem(), roles),
                      judgement);
  return judgement;
}

}  // namespace

const Property double_backward{
    "double_backward",
    "Every element of the gradient of the gradients lies within the bound that follows from claim and input.",
    applies,
    plan,
    one_call,
    judge};

}  // namespace normgate
