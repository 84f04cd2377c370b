// The same logical problem gives the same result in every layout that the kernel claims, at every alignment, at both
// fences and in place: each within the bound of the one truth, bit for bit iff the kernel promises layout_invariant.
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_primary(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "layouts");
  std::size_t i = 0;
  // A backward has twice the tensors to lay out, and half the lengths.
  const bool backward = is_backward(subject.phase);
  for (const std::int64_t length : planner.lengths(backward ? 1100 : 2100, backward ? 5 : 3)) {
    Recipe recipe;
    recipe.length = length;
    recipe.kappa = i % 2 == 0 ? 1 : 10;
    planner.add(recipe);
    ++i;
  }
  // Extents of 1 make strides ambiguous; all extents different make a mixed-up pair visible.
  for (const Shape& shape :
       {Shape{2, 1, 3, 1}, Shape{1, 1, 5, 7}, Shape{3, 2, 5, 7}, Shape{2, 4, 3, 6}, Shape{5, 1, 1, 9},
        Shape{3, 1, 9, 3}, Shape{3, 1, 17, 3}, Shape{2, 1, 33, 4}, Shape{2, 2, 33, 3}, Shape{3, 16, 2, 5}}) {
    Problem p;
    p.shape = shape;
    p.saved = p.running = true;
    if (shape[3] % 2 == 1) p.cotangent = shape[0] % 2 == 1 ? Cotangent::ones : Cotangent::pooled;
    planner.add(p);
  }
  return planner.take();
}

// The tensors with an element for each of the problem's: the forward's two, the backward's two, those of parts.
constexpr Role outer_roles[] = {Role::x,         Role::y,         Role::dy,  Role::dx,
                                Role::part_mean, Role::part_stat, Role::ddx, Role::ddy};

// Variations of one problem, inside the claim.
std::vector<Problem> variations(const Problem& problem, const Subject& subject) {
  std::vector<Problem> result;
  const auto add = [&](auto change) {
    Problem p = problem;
    change(p);
    p = inside_claim(p, subject);
    if (check(p).empty()) result.push_back(std::move(p));
  };
  const auto all = [](Problem& p, const Layout& layout) {
    for (const Role role : outer_roles) p.layout[role] = layout;
  };
  constexpr std::array channels_last{Axis::n, Axis::s, Axis::g, Axis::k};
  constexpr std::array reversed{Axis::s, Axis::k, Axis::g, Axis::n};
  constexpr std::array channels_outermost{Axis::k, Axis::n, Axis::s, Axis::g};
  // What is read by its own layout, and what is written by its own.
  const Role read = has_cotangent(problem.phase)               ? Role::dy
                    : problem.phase == Phase::merge_statistics ? Role::part_stat
                                                               : Role::x;
  const Role written = has_cotangent(problem.phase) ? Role::dx : Role::y;
  add([](Problem& p) { p.in_place = true; });
  add([](Problem& p) { p.misalign = 1; });
  add([](Problem& p) { p.skew = 1; });
  add([](Problem& p) { p.skew = 3, p.misalign = 2; });
  add([&](Problem& p) { p.layout[read].order = reversed; });
  add([&](Problem& p) { all(p, {.order = channels_outermost}); });
  add([](Problem& p) { p.misalign = 3, p.fence = Fence::left; });
  add([&](Problem& p) { all(p, {.order = channels_last}); });
  add([&](Problem& p) { all(p, {.pad = 5}); });
  add([&](Problem& p) { p.layout[Role::x].order = channels_last, p.layout[Role::x].step = 2; });
  add([&](Problem& p) { p.layout[written].order = reversed, p.layout[written].pad = 3; });
  add([&](Problem& p) {
    for (const Role role : {Role::gamma, Role::beta, Role::mean, Role::stat, Role::running_mean, Role::running_var,
                            Role::dgamma, Role::dbeta, Role::part_count, Role::ddgamma, Role::ddbeta})
      p.layout[role].step = 2 + static_cast<std::int64_t>(index_of(role)) % 2;
    all(p, {.step = 3});
  });
  add([&](Problem& p) {
    all(p, {.order = channels_last, .pad = 2});
    p.in_place = true;
    p.misalign = 1;
  });
  // An upstream gradient of channels last beside an x that is not, and one that was expanded.
  if (read == Role::dy) {
    add([&](Problem& p) { p.layout[read].order = channels_last; });
    add([&](Problem& p) {
      if (p.cotangent == Cotangent::ones) p.layout[read].broadcast = {Axis::n, Axis::g, Axis::k, Axis::s};
      if (p.cotangent == Cotangent::pooled) p.layout[read].broadcast = {Axis::s};
    });
    add([&](Problem& p) {
      if (p.cotangent == Cotangent::ones) p.layout[read].broadcast = {Axis::g, Axis::k};
    });
  }
  return result;
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  for (const Problem& problem : variations(c.problem(), subject)) {
    result.push_back(call_of(problem, c.inputs(), subject));
    // Whoever declines one variation is tried in the others.
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
  const auto problems = variations(c.problem(), subject);
  for (std::size_t j = 0; j < outcomes.size(); ++j) {
    if (outcomes[j].status != runner::Status::ok) continue;
    const bool before = judgement.violation.has_value();
    judge_within_bounds(c, claim, demand, outcomes[j].outputs, roles, judgement);
    if (claim.layout_invariant && claim.deterministic && j > 0)
      judge_equal(c, outcomes[0].outputs, outcomes[j].outputs, roles, nullptr, "in another layout", judgement);
    if (!before && judgement.violation && j > 0) judgement.violation->at += "  in: " + print(problems[j - 1]);
  }
  return judgement;
}

}  // namespace

const Property layouts{"layouts", "Layout, strides, alignment and running in place change no result beyond its bound.",
                       applies,   plan,
                       calls,     judge};

}  // namespace normgate
