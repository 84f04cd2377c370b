// Extents at which indices, grids and blocks end are extents like any others: lengths around the powers of two from
// 2^14 to 2^16 (2^17 at standard effort, 2^20 at thorough; the shorter ones are in every plan), 65535 to 65537 groups,
// many blocks of them, and at thorough effort groups beyond 2^24 elements and tensors beyond 2^31. Every element that
// is judged lies within the bound that follows from claim and input.
//
// A group's statistics, y and dx depend on the group alone. So a group may be judged as a problem of its own, with its
// share of every tensor, and two ways of it make many elements cheap; sums over groups are not judged in either.
//  - Many short groups: the data of the first seven are repeated in all others, so that seven small problems say what
//    every group has to be. 65536 and 4096 leave remainders of 2 and 1 by 7: an index that wraps meets other data.
//  - Above 2^22 elements: some groups, the first and the last, those around 65536, and those that hold an element whose
//    number is a power of two from 2^22 on or the one before it. A problem whose tensors do not fit into the memory
//    that the system has left is skipped.
// Preconditions: none.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::int64_t judged_whole = std::int64_t{1} << 22;
constexpr std::int64_t patterns = 7;

// Whether the groups repeat the first ones.
bool repeats(const Problem& problem) {
  return group_count(problem) > 4096 && group_size(problem) <= 64 && element_count(problem.shape) <= judged_whole;
}

bool applies(const Subject& subject) { return is_primary(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "extents");
  std::size_t i = 0;
  const auto add = [&](std::int64_t length, std::int64_t groups) {
    Problem p;
    p.shape = shape_with(subject.row, length, groups, i % 2);
    p.kappa = 3;
    p.saved = i % 2 == 0;
    p.running = i % 2 == 1;
    p.given = i % 3 == 0 ? Given::saved : Given::running;
    if (i % 2 == 1) p.cotangent = Cotangent::mixed;
    planner.add(p);
    ++i;
  };
  if (effort == Effort::quick && !is_training(subject.phase)) {
    add(2, 65536);
    return planner.take();
  }
  for (const std::int64_t groups : {65535, 65536}) add(2, groups);
  // Both reduced axes are longer than 1: what is sized by one of them shows where there are many groups.
  ++i;
  add(4, 65537);
  if (effort == Effort::quick) {
    // accuracy and gradients meet lengths beside these.
    if (!is_backward(subject.phase)) add(1 << 16, 1);
    return planner.take();
  }
  // Merged parts are as many as there are ranks: 2^16 are plenty, and their truth has 100 digits for each.
  const bool merges = subject.phase == Phase::merge_statistics;
  const std::int64_t largest = merges ? 1 << 16 : planner.by_effort(1 << 16, 1 << 17, 1 << 20);
  for (std::int64_t power = 1 << 14; power <= largest; power *= 2)
    for (const std::int64_t length : {power - 1, power, power + 1}) add(length, 1);
  for (const std::int64_t groups : {32767, 32768, 32769, 131072, 131073}) add(1, groups);
  add(33, 65537);
  if (effort != Effort::thorough) return planner.take();
  add((std::int64_t{1} << 24) + 3, 1);
  add(3, (std::int64_t{1} << 23) + 1);
  add(129, (std::int64_t{1} << 31) / 129 + 2);
  add((std::int64_t{1} << 20) + 7, 2049);
  return planner.take();
}

// Bytes that a call needs at once: inputs, their copies in the call and in the fenced slots; outputs in slots and as
// they come back; the truth and the bounds of the longest group.
std::uint64_t bytes_of(const Problem& problem) {
  const VariantRow& row = row_of(problem.variant);
  std::uint64_t elements = 0;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const RoleUse use = use_of(problem, role);
    if (!use.present()) continue;
    const auto count = static_cast<std::uint64_t>(element_count(restricted(problem.shape, axes_of(role, row))));
    elements += count * ((use.read ? 2 : 0) + (use.write ? 1 : 0) + 1);
  }
  constexpr std::uint64_t bytes_judged = 200;
  return 4 * elements + bytes_judged * static_cast<std::uint64_t>(group_size(problem));
}

std::uint64_t available_bytes() {
  std::uint64_t available = 0;
  if (std::FILE* file = std::fopen("/proc/meminfo", "re")) {
    char line[256];
    unsigned long long kilobytes = 0;
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1) available = std::uint64_t{kilobytes} * 1024;
    std::fclose(file);
  }
  return available;
}

// "" or why the problem is not tried.
std::string too_large(const Problem& problem) {
  if (element_count(problem.shape) <= judged_whole) return "";
  const std::uint64_t needed = bytes_of(problem);
  const std::uint64_t available = available_bytes();
  if (available == 0 || needed < available / 10 * 8) return "";
  constexpr double gibibyte = 1 << 30;
  return fmt::format("{} elements need {:.1f} GiB of memory, of which the system has {:.1f} GiB left",
                     element_count(problem.shape), static_cast<double>(needed) / gibibyte,
                     static_cast<double>(available) / gibibyte);
}

// The inputs with the data of the first groups in all others. What has the groups' axes follows its group; parameters
// that several groups share are the same for all.
Inputs repeated(const Problem& problem, const VariantRow& row, Inputs inputs) {
  const Groups groups(problem.shape, row);
  AxisSet kept;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (!row.reduced.has(a) && problem.shape[a] > 1) kept.insert(static_cast<Axis>(a));
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!use_of(problem, role).read) continue;
    const AxisSet axes = axes_of(role, row);
    bool all = true;
    bool any = false;
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (!kept.has(a)) continue;
      all = all && axes.has(a);
      any = any || axes.has(a);
    }
    if (!any) continue;
    std::vector<float>& values = inputs[role];
    // A group's elements lie at the same distances from its first one, whatever the group.
    std::vector<std::size_t> distances;
    groups.for_each(0, [&](std::int64_t, const Shape& at) {
      distances.push_back(static_cast<std::size_t>(dense_index(problem.shape, axes, at)));
    });
    const auto first_of = [&](std::int64_t q) {
      return static_cast<std::size_t>(dense_index(problem.shape, axes, groups.origin(q)));
    };
    for (std::int64_t q = all ? patterns : 1; q < groups.count(); ++q) {
      const std::size_t to = first_of(q);
      const std::size_t from = first_of(all ? q % patterns : 0);
      for (const std::size_t d : distances) values[to + d] = values[from + d];
    }
  }
  return inputs;
}

// The case that is tried: with repeated data, where they repeat.
const Case& tried(const Case& c) {
  if (!repeats(c.problem())) return c;
  return c.derived(0,
                   [&c] { return Case(c.problem(), repeated(c.problem(), row_of(c.problem().variant), c.inputs())); });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  if (!too_large(c.problem()).empty()) return {};
  return {call_of(c.problem(), tried(c).inputs(), subject)};
}

std::set<std::int64_t> judged_groups(const Problem& problem) {
  const std::int64_t groups = group_count(problem);
  const std::int64_t elements = element_count(problem.shape);
  std::set<std::int64_t> result;
  for (const std::int64_t q : {std::int64_t{0}, std::int64_t{1}, groups - 2, groups - 1, std::int64_t{65535},
                               std::int64_t{65536}, std::int64_t{65537}})
    if (q >= 0 && q < groups) result.insert(q);
  for (std::int64_t power = judged_whole; power < elements; power *= 2)
    for (std::int64_t index : {power - 1, power}) {
      Shape at{};
      for (std::size_t a = axis_count; a-- > 0;) {
        at[a] = index % problem.shape[a];
        index /= problem.shape[a];
      }
      result.insert(group_index(problem, at));
    }
  return result;
}

constexpr Role roles_of_groups[] = {Role::y, Role::mean, Role::stat, Role::dx};

// A group as a problem of its own.
class Alone {
 public:
  Alone(const Problem& problem, const VariantRow& row) : whole_(problem), alone_(problem), row_(row) {
    alone_.shape = restricted(problem.shape, row.reduced);
    alone_.running = false;
  }
  [[nodiscard]] std::vector<Role> outputs() const { return written(alone_, roles_of_groups); }
  // Its part of a tensor, dense.
  [[nodiscard]] std::vector<float> share(const std::vector<float>& tensor, Role role, std::int64_t group) const {
    const Groups groups(whole_.shape, row_);
    const Shape origin = groups.origin(group);
    const AxisSet axes = axes_of(role, row_);
    std::vector<float> part(static_cast<std::size_t>(element_count(restricted(alone_.shape, axes))));
    groups.for_each(group, [&](std::int64_t, const Shape& at) {
      Shape inside{};
      for (std::size_t a = 0; a < axis_count; ++a) inside[a] = at[a] - origin[a];
      part[static_cast<std::size_t>(dense_index(alone_.shape, axes, inside))] =
          tensor[static_cast<std::size_t>(dense_index(whole_.shape, axes, at))];
    });
    return part;
  }
  [[nodiscard]] Case case_of(const Inputs& inputs, std::int64_t group) const {
    Inputs its;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (use_of(alone_, role).read) its[role] = share(inputs[role], role, group);
    }
    return Case(alone_, std::move(its));
  }
  [[nodiscard]] Inputs outputs_of(const Inputs& outputs, std::int64_t group) const {
    Inputs its;
    for (const Role role : this->outputs()) its[role] = share(outputs[role], role, group);
    return its;
  }

 private:
  Problem whole_;
  Problem alone_;
  const VariantRow& row_;
};

// Whether a group's outputs lie within the bounds of the demand on it; `distances` are those of its elements in x from
// its first one.
bool holds(const Inputs& outputs, std::int64_t group, std::int64_t first, std::span<const std::int64_t> distances,
           const Demand& demand, std::span<const Role> roles) {
  for (const Role role : roles) {
    const auto& truth = demand.truth->out[role];
    const auto& tolerance = demand.bounds->tolerance[role];
    const bool one = role == Role::mean || role == Role::stat;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const auto index = static_cast<std::size_t>(one ? group : first + distances[i]);
      const double error = distance(static_cast<double>(outputs[role][index]), truth[i]);
      if (std::isfinite(tolerance[i]) && !(error <= tolerance[i] + truth[i].bound)) return false;
    }
  }
  return true;
}

void judge_groups(const Case& c, const Inputs& outputs, const Subject& subject, Judgement& judgement) {
  const Problem& problem = c.problem();
  const Alone alone(problem, subject.row);
  const auto roles = alone.outputs();
  const bool all = repeats(problem);
  std::vector<Case> cases;
  std::vector<Demand> demands;
  std::set<std::int64_t> groups;
  if (all) {
    cases.reserve(patterns);
    for (std::int64_t pattern = 0; pattern < patterns; ++pattern) cases.push_back(alone.case_of(c.inputs(), pattern));
    for (const Case& one : cases) demands.push_back(demand_of(one, subject));
  } else {
    groups = judged_groups(problem);
  }
  const auto judge_one = [&](std::int64_t group, const Case& its_case, const Demand& demand) {
    judge_within_bounds(its_case, subject.kernel.claim, demand, alone.outputs_of(outputs, group), roles, judgement);
    if (judgement.violation)
      judgement.violation->at += fmt::format("  counted inside group {} of {}", group, group_count(problem));
    return !judgement.violation;
  };
  if (all) {
    const Groups groups_of_x(problem.shape, subject.row);
    const AxisSet axes = axes_of(Role::x, subject.row);
    std::vector<std::int64_t> distances;
    groups_of_x.for_each(0, [&](std::int64_t index, const Shape&) { distances.push_back(index); });
    for (std::int64_t group = 0; group < group_count(problem); ++group) {
      const auto pattern = static_cast<std::size_t>(group % patterns);
      // The first ones are judged in full, for the figures; of the others only those that are wrong.
      const bool full = group < patterns;
      const std::int64_t first = dense_index(problem.shape, axes, groups_of_x.origin(group));
      if (!full && holds(outputs, group, first, distances, demands[pattern], roles)) {
        judgement.elements += group_size(problem);
        continue;
      }
      if (!judge_one(group, cases[pattern], demands[pattern])) return;
    }
    return;
  }
  for (const std::int64_t group : groups) {
    const Case its_case = alone.case_of(c.inputs(), group);
    if (!judge_one(group, its_case, demand_of(its_case, subject))) return;
  }
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  if (outcomes.empty()) {
    judgement.skipped = too_large(problem);
    if (judgement.skipped.empty()) judgement.skipped = "there was no memory for its tensors when it was to be tried";
    return judgement;
  }
  if (!repeats(problem) && element_count(problem.shape) <= judged_whole)
    judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs,
                        written(problem, output_roles), judgement);
  else
    judge_groups(tried(c), outcomes[0].outputs, subject, judgement);
  return judgement;
}

}  // namespace

const Property extents{
    "extents", "Extents at which indices and blocks end are extents like any others.", applies, plan, calls, judge};

}  // namespace normgate
