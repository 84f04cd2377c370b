// The statistics of parts, merged, are those of the whole: what synchronized batch normalization rests on.
//
//   - Merged statistics lie within the bound of merge_statistics around the definition, for parts of any counts, also
//     empty ones, in whose place NaN stands.
//   - They do not depend on the order of the parts: in reverse, and begun in the middle, they lie within the bound of
//     the same truth.
//   - From end to end: x is taken in parts, the kernel's own `statistics` of each are merged by its merge_statistics,
//     and compared with the definition's statistics of the whole. With e_p and f_p the bounds on mean and variance of
//     part p (0 for what is handed exactly), the exact union of the kernel's parts is off by what moved_by() derives,
//     and the merge by its own bound for these parts as exact inputs: the tolerance is the sum of both. A kernel
//     without the phase `statistics` is handed the float32 nearest to the true ones, off by at most half a unit in the
//     last place.
//
// Preconditions: the kernel can merge. The convention has no say in it, so that the first one listed is tried alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/merge.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr Role roles[] = {Role::mean, Role::stat};
// The whole is made of so many elements at most; unions of more are judged from given parts.
constexpr std::int64_t most_elements = 12000;

bool applies(const Subject& subject) { return is_primary(subject) && subject.phase == Phase::merge_statistics; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "partition_and_merge");
  // Partitions as they happen: an uneven split, a worker without data, a last batch that is short.
  const std::vector<std::vector<float>> partitions{
      {1, 3},      {0, 4},   {5, 2, 1},       {4, 0},       {1},
      {7},         {1, 1},   {100, 1},        {3, 0, 0, 5}, {2, 2, 2, 2},
      {64, 64, 7}, {1, 300}, {16, 15, 1, 17}, {1, 1, 1, 1}, {9, 33, 0, 65}};
  constexpr std::array kappas{1.0, 10.0, 0.0, 1e3};
  constexpr std::array scales{0, 3, -6, 0, 10};
  std::size_t i = 0;
  for (const std::vector<float>& partition : partitions)
    for (const Profile profile : {Profile::drift, Profile::conditioned}) {
      // One part is like another where the means are: those are for drift alone in quick.
      if (effort == Effort::quick && profile == Profile::conditioned && i % 3 != 0) {
        ++i;
        continue;
      }
      Problem problem;
      const auto parts = static_cast<std::int64_t>(partition.size());
      problem.shape = shape_with(subject.row, parts, 1 + static_cast<std::int64_t>(i % 5), i);
      problem.profile = profile;
      problem.kappa = kappas[i % kappas.size()];
      problem.scale = scales[i % scales.size()];
      problem.values[Role::part_count] = partition;
      planner.add(problem);
      ++i;
    }
  // Counts that sum to more than float32 counts, and to more than an int32 holds.
  for (const std::vector<float>& counts :
       {std::vector<float>{0x1p24F, 3}, {0x1p23F, 0x1p24F, 0x1p24F - 1, 1}, std::vector<float>(130, 0x1p24F)}) {
    Problem problem;
    problem.shape = shape_with(subject.row, static_cast<std::int64_t>(counts.size()), 3, 0);
    problem.profile = Profile::drift;
    problem.kappa = 3;
    problem.values[Role::part_count] = counts;
    planner.add(problem);
  }
  // Many parts of drawn counts.
  constexpr std::array profiles{Profile::drift, Profile::conditioned, Profile::needle, Profile::near_constant,
                                Profile::outlier_channels};
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round)
    for (const std::int64_t parts : {2, 3, 5, 8, 16, 17, 31, 33, 64, 100, 257}) {
      Recipe recipe;
      recipe.length = parts;
      recipe.groups = parts > 40 ? 3 : 7;
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = kappas[(i + i / 4) % kappas.size()];
      recipe.scale = scales[i % scales.size()];
      recipe.layouts = i % 3 == 1;
      planner.add(recipe);
      ++i;
    }
  // NaN and infinities in parts that count, and more channels than a block.
  for (const std::int64_t parts : {2, 4, 9}) {
    Recipe recipe;
    recipe.length = parts;
    recipe.groups = 9;
    recipe.profile = Profile::special;
    planner.add(recipe);
  }
  for (const std::int64_t groups : {17, 65, 130}) {
    Recipe recipe;
    recipe.length = 4;
    recipe.groups = groups;
    recipe.profile = Profile::drift;
    planner.add(recipe);
  }
  return planner.take();
}

// ---- order --------------------------------------------------------------------------------------------------------

// The parts of every group with part p in the place of order[p].
Inputs reordered(const Problem& problem, const Inputs& inputs, const std::vector<std::size_t>& order) {
  const VariantRow& row = row_of(problem.variant);
  const Groups groups(problem.shape, row);
  Inputs result = inputs;
  for (std::size_t p = 0; p < order.size(); ++p) result[Role::part_count][p] = inputs[Role::part_count][order[p]];
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::vector<std::size_t> places;
    groups.for_each(q, [&](std::int64_t i, const Shape&) { places.push_back(static_cast<std::size_t>(i)); });
    for (const Role role : {Role::part_mean, Role::part_stat})
      for (std::size_t p = 0; p < order.size() && !inputs[role].empty(); ++p)
        result[role][places[p]] = inputs[role][places[order[p]]];
  }
  return result;
}

std::vector<std::size_t> reversed(std::size_t parts) {
  std::vector<std::size_t> order;
  for (std::size_t p = parts; p-- > 0;) order.push_back(p);
  return order;
}
std::vector<std::size_t> from_the_middle(std::size_t parts) {
  std::vector<std::size_t> order;
  for (std::size_t p = 0; p < parts; ++p) order.push_back((p + parts / 2 + 1) % parts);
  return order;
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  const Problem& problem = c.problem();
  const auto parts = static_cast<std::size_t>(group_size(problem));
  std::vector<runner::Call> result = one_call(c, subject);
  if (parts < 2) return result;
  for (const auto& order : {reversed(parts), from_the_middle(parts)})
    result.push_back(call_of(problem, reordered(problem, c.inputs(), order), subject));
  return result;
}

// ---- from end to end ----------------------------------------------------------------------------------------------

// The axis along which x is parted: the first of those that are reduced.
std::size_t parted_axis(const VariantRow& row) {
  std::size_t axis = 0;
  while (!row.reduced.has(axis)) ++axis;
  return axis;
}

// The whole that the parts of a problem are parts of: the same groups, of as many elements as the parts count together.
Problem whole_of(const Problem& problem, std::int64_t elements) {
  const VariantRow& row = row_of(problem.variant);
  Problem whole;
  whole.phase = Phase::statistics;
  whole.variant = problem.variant;
  whole.shape = problem.shape;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (row.reduced.has(a)) whole.shape[a] = a == parted_axis(row) ? elements : 1;
  whole.profile = problem.profile;
  whole.kappa = problem.kappa;
  whole.scale = problem.scale;
  whole.convention = problem.convention;
  whole.key = problem.key;
  return whole;
}

// `count` elements of each group, from `begin` on.
Case part_of(const Case& whole, std::int64_t begin, std::int64_t count) {
  const Problem& problem = whole.problem();
  const std::size_t axis = parted_axis(row_of(problem.variant));
  Problem part = problem;
  part.shape[axis] = count;
  constexpr AxisSet every_axis{Axis::n, Axis::g, Axis::k, Axis::s};
  Inputs inputs;
  inputs[Role::x].resize(static_cast<std::size_t>(element_count(part.shape)));
  const std::vector<float>& x = whole.inputs()[Role::x];
  Shape at{};
  std::size_t i = 0;
  for (at[0] = 0; at[0] < part.shape[0]; ++at[0])
    for (at[1] = 0; at[1] < part.shape[1]; ++at[1])
      for (at[2] = 0; at[2] < part.shape[2]; ++at[2])
        for (at[3] = 0; at[3] < part.shape[3]; ++at[3]) {
          Shape from = at;
          from[axis] += begin;
          inputs[Role::x][i++] = x[static_cast<std::size_t>(dense_index(problem.shape, every_axis, from))];
        }
  return {part, std::move(inputs)};
}

std::string written_as_sum(const std::vector<float>& counts) {
  std::string text;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    if (p == 8) return text + "+…";
    text += fmt::format("{}{}", p == 0 ? "" : "+", static_cast<std::int64_t>(counts[p]));
  }
  return text;
}

class EndToEnd {
 public:
  EndToEnd(const Case& c, const Subject& subject, Bench& bench)
      : case_(c),
        subject_(subject),
        bench_(bench),
        row_(subject.row),
        counts_(c.inputs()[Role::part_count]),
        groups_(c.problem().shape, row_) {}

  void judge(Judgement& judgement) {
    double total = 0;
    for (const float count : counts_) total += static_cast<double>(count);
    if (total == 0 || total * static_cast<double>(groups_.count()) > static_cast<double>(most_elements)) return;
    // A special value decides too little: half of the parts would be NaN.
    if (case_.problem().profile == Profile::special) return;
    const Case& whole = case_.derived(
        0, [&] { return Case(whole_of(case_.problem(), static_cast<std::int64_t>(total)), Wanted::statistics); });
    take_parts(whole);
    const runner::Outcome merged = bench_.run_one(case_.problem(), handed_);
    const Demand demand = demand_on(whole);
    const bool before = judgement.violation.has_value();
    judge_within_bounds(whole, subject_.kernel.claim, demand, merged.outputs, written(whole.problem(), roles),
                        judgement);
    if (judgement.violation && !before)
      judgement.violation->at += fmt::format("  of the whole, from parts of {} elements", written_as_sum(counts_));
  }

 private:
  [[nodiscard]] bool has_statistics() const {
    const auto& phases = subject_.kernel.phases;
    return std::find(phases.begin(), phases.end(), Phase::statistics) != phases.end();
  }

  // The statistics of the parts, by the kernel if it takes them, laid as merge_statistics reads them; and their errors.
  void take_parts(const Case& whole) {
    const Problem& problem = case_.problem();
    const auto groups = static_cast<std::size_t>(groups_.count());
    const Subject of_parts{row_, Phase::statistics, subject_.kernel, subject_.convention};
    std::vector<const Case*> parts;
    std::vector<runner::Call> calls;
    std::int64_t begin = 0;
    for (std::size_t p = 0; p < counts_.size(); ++p) {
      const auto count = static_cast<std::int64_t>(counts_[p]);
      const Case* part = nullptr;
      if (count > 0) part = &case_.derived(1 + p, [&] { return part_of(whole, begin, count); });
      parts.push_back(part);
      if (part != nullptr && has_statistics()) calls.push_back(call_of(part->problem(), part->inputs(), of_parts));
      begin += count;
    }
    const std::vector<runner::Outcome> outcomes = calls.empty() ? std::vector<runner::Outcome>() : bench_.run(calls);

    handed_[Role::part_count] = counts_;
    for (const Role role : {Role::part_mean, Role::part_stat})
      if (use_of(problem, role).read)
        handed_[role].assign(static_cast<std::size_t>(element_count(problem.shape)),
                             std::numeric_limits<float>::quiet_NaN());
    errors_.assign(groups, std::vector<PartError>(counts_.size()));
    std::size_t next = 0;
    for (std::size_t p = 0; p < counts_.size(); ++p) {
      if (parts[p] == nullptr) continue;
      const Truth& truth = parts[p]->truth();
      const runner::Outcome* outcome = outcomes.empty() ? nullptr : &outcomes[next++];
      Demand demand;
      if (outcome != nullptr) demand = demand_of(*parts[p], of_parts);
      for (std::size_t q = 0; q < groups; ++q) {
        PartError& error = errors_[q][p];
        error.count = static_cast<double>(counts_[p]);
        const std::size_t place = place_of(q, p);
        const auto take = [&](Role part, Role own, const Exact& exact) {
          if (handed_[part].empty()) return 0.0;
          float& value = handed_[part][place];
          if (outcome != nullptr) {
            value = outcome->outputs[own][q];
            return demand.bounds->tolerance[own][q] + exact.bound;
          }
          value = static_cast<float>(exact.hi);
          return std::fabs(minus(static_cast<double>(value), exact)) * (1 + 0x1p-50) + exact.bound;
        };
        error.mean = take(Role::part_mean, Role::mean, truth.groups[q].mean);
        error.variance = take(Role::part_stat, Role::stat, truth.groups[q].variance);
        if (row_.centred) {
          const Exact& mean = whole.truth().groups[q].mean;
          error.deviation = (truth.groups[q].mean.hi - mean.hi) + (truth.groups[q].mean.lo - mean.lo);
        }
      }
    }
  }

  // Where part p of group q stands.
  [[nodiscard]] std::size_t place_of(std::size_t q, std::size_t p) const {
    std::size_t place = 0;
    std::size_t part = 0;
    groups_.for_each(static_cast<std::int64_t>(q), [&](std::int64_t i, const Shape&) {
      if (part++ == p) place = static_cast<std::size_t>(i);
    });
    return place;
  }

  [[nodiscard]] Demand demand_on(const Case& whole) const {
    const Truth merged = forward_truth(case_.problem(), handed_);
    Demand demand{&whole.truth(), merge_bounds(case_.problem(), handed_, merged, subject_.kernel.claim)};
    for (std::size_t q = 0; q < errors_.size(); ++q) {
      const Moved moved = moved_by(errors_[q]);
      const auto add = [&](Role role, double by) {
        auto& tolerance = demand.bounds.own().tolerance[role];
        if (tolerance.empty()) return;
        // The bound of a group that became NaN on the way is 0; then what is wrong is found where it arose.
        const bool number = merged.out[role][q].finite() && std::isfinite(by);
        tolerance[q] = number ? (tolerance[q] + merged.out[role][q].bound + by) * (1 + 0x1p-50)
                              : std::numeric_limits<double>::infinity();
      };
      add(Role::mean, moved.mean);
      add(Role::stat, moved.variance);
    }
    return demand;
  }

  const Case& case_;
  const Subject& subject_;
  Bench& bench_;
  const VariantRow& row_;
  const std::vector<float>& counts_;
  Groups groups_;
  Inputs handed_;
  std::vector<std::vector<PartError>> errors_;  // by group and part
};

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench& bench) {
  Judgement judgement;
  const Demand demand = demand_of(c, subject);
  constexpr std::array<std::string_view, 3> orders{"", "  with the parts in reverse",
                                                   "  with the parts begun in the middle"};
  for (std::size_t j = 0; j < outcomes.size(); ++j) {
    const bool before = judgement.violation.has_value();
    judge_within_bounds(c, subject.kernel.claim, demand, outcomes[j].outputs, written(c.problem(), roles), judgement);
    if (judgement.violation && !before) judgement.violation->at += orders[j];
  }
  if (!judgement.violation) EndToEnd(c, subject, bench).judge(judgement);
  return judgement;
}

}  // namespace

const Property partition_and_merge{"partition_and_merge",
                                   "The statistics of parts, merged, are those of the whole, in any order.",
                                   applies,
                                   plan,
                                   calls,
                                   judge,
                                   Wanted::statistics};

}  // namespace normgate
