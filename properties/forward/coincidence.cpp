// Where two rows of the variant table coincide, a kernel of one is a kernel of the other.
//
// Two rows with the same centred bit define the same function of problems whose extents are 1 on every axis on which
// their reduced or affine sets differ: layer_norm and group_norm with g = s = 1, group_norm and instance_norm with
// k = 1, instance_norm and batch_norm with n = 1, batch_norm and group_norm with n = k = 1, and so on. From running
// statistics rows normalize by channel, whatever they reduce: those with the same running axes coincide everywhere. So
// y and the saved statistics lie within the bound that follows from the *other* row's truth (the references agree bit
// for bit; running statistics are a matter of the row and left out). What this finds is a kernel that hands such
// problems to another one, or takes one kind for another: shapes are all of these.
// Preconditions: a row that has such a relative (rms_norm has none).
#include <fmt/format.h>

#include <array>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

// The axes on which extents must be 1.
AxisSet differing(const VariantRow& a, const VariantRow& b) {
  AxisSet result;
  for (std::size_t axis = 0; axis < axis_count; ++axis)
    if (a.reduced.has(axis) != b.reduced.has(axis) || a.affine.has(axis) != b.affine.has(axis))
      result.insert(static_cast<Axis>(axis));
  return result;
}

bool related(const VariantRow& a, const VariantRow& b) { return a.variant != b.variant && a.centred == b.centred; }

bool coincide(const Problem& problem, const VariantRow& a, const VariantRow& b) {
  if (!related(a, b)) return false;
  if (problem.given == Given::running) return a.running == b.running && a.affine == b.affine;
  const AxisSet axes = differing(a, b);
  for (std::size_t axis = 0; axis < axis_count; ++axis)
    if (axes.has(axis) && problem.shape[axis] != 1) return false;
  return true;
}

bool applies(const Subject& subject) {
  if (!is_forward(subject.phase)) return false;
  for (const VariantRow& other : variant_table())
    if (related(subject.row, other)) return true;
  return false;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "coincidence");
  constexpr std::array profiles{Profile::conditioned, Profile::outlier_channels, Profile::exact_sum, Profile::drift};
  constexpr std::array kappas{1.0, 30.0, 0.0, 500.0};
  constexpr std::array<std::int64_t, 7> firsts{4, 1, 3, 9, 2, 17, 5};
  constexpr std::array<std::int64_t, 5> seconds{5, 3, 1, 8, 33};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round)
    for (const VariantRow& other : variant_table()) {
      if (!related(subject.row, other)) continue;
      const AxisSet ones = differing(subject.row, other);
      for (const std::int64_t length : planner.lengths(2100, 8)) {
        Problem problem;
        std::int64_t elements = 1;
        // Reduced axes that both have take the length; the kept ones counts that differ.
        for (std::size_t axis = 0; axis < axis_count; ++axis)
          if (!ones.has(axis) && subject.row.reduced.has(axis)) problem.shape[axis] = elements = length;
        std::size_t kept = 0;
        for (std::size_t axis = 0; axis < axis_count; ++axis) {
          if (ones.has(axis) || subject.row.reduced.has(axis)) continue;
          const std::int64_t extent = kept++ == 0 ? firsts[i % firsts.size()] : seconds[i % seconds.size()];
          if (elements * extent > 20000) continue;
          problem.shape[axis] = extent;
          elements *= extent;
        }
        problem.profile = profiles[i % profiles.size()];
        problem.kappa = kappas[i % kappas.size()];
        problem.level = 3;
        problem.gamma = i % 8 != 5;
        problem.beta = i % 6 != 3;
        problem.saved = problem.running = i % 3 != 1;
        problem.given = i % 2 == 0 ? Given::saved : Given::running;
        if (i % 4 == 2)
          for (const Role role : {Role::x, Role::y}) problem.layout[role].order = {Axis::n, Axis::s, Axis::g, Axis::k};
        planner.add(problem);
        ++i;
        // One axis is left, or none: lengths do not change the problem.
        if (kept == 0 && elements == 1) break;
      }
    }
  return planner.take();
}

// The same call, as the other row would have it.
const Case& as(const Case& c, const VariantRow& other) {
  return c.derived(static_cast<std::size_t>(other.variant), [&] {
    Problem problem = c.problem();
    problem.variant = other.variant;
    problem.running = false;
    return Case(problem, c.inputs());
  });
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  judgement.discarded = true;
  for (const VariantRow& other : variant_table()) {
    if (!coincide(c.problem(), subject.row, other)) continue;
    judgement.discarded = false;
    constexpr Role roles[] = {Role::y, Role::mean, Role::stat};
    const Case& relative = as(c, other);
    judge_within_bounds(relative, subject.kernel.claim, demand_of(relative, subject), outcomes[0].outputs,
                        written(c.problem(), roles), judgement);
    if (!judgement.violation) continue;
    judgement.violation->at += fmt::format("  which is {} as well", other.name);
    break;
  }
  return judgement;
}

}  // namespace

const Property coincidence{
    "coincidence", "Where two rows of the table define the same function, a kernel of one computes the other.",
    applies,       plan,
    one_call,      judge};

}  // namespace normgate
