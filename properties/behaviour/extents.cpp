// Extents at which indices, grids and blocks end are extents like any others: lengths around every power of two from
// 2^14 to 2^16 (2^20 at standard effort; the shorter ones are in every plan), 65535 to 65537 groups, many blocks of
// them, and at thorough effort groups beyond 2^24 elements and tensors beyond 2^31. Every element that is judged lies
// within the bound that follows from claim and input.
//
// Above 2^22 elements only some groups are judged: the first and the last, those around 65536, and those that hold an
// element whose number is a power of two from 2^22 on or the one before it. Since a group's statistics, y and dx depend
// on the group alone, each is judged as a problem of its own, with the group's share of every tensor; sums over groups
// are not judged there. A problem whose tensors do not fit into the memory that the system has left is skipped.
// Preconditions: none.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::int64_t judged_whole = std::int64_t{1} << 22;

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
  for (const std::int64_t groups : {65535, 65536}) add(2, groups);
  // Both reduced axes are longer than 1: what is sized by one of them shows where there are many groups.
  ++i;
  add(4, 65537);
  const std::int64_t largest = planner.by_effort(1 << 16, 1 << 20, 1 << 20);
  // A short group costs as much as a long one of the same number of elements; what is new here are the ends of blocks.
  for (std::int64_t power = 1 << 14; power <= largest; power *= 2)
    for (const std::int64_t length : {power - 1, power, power + 1}) add(length, 1);
  if (effort == Effort::quick) return planner.take();
  for (const std::int64_t groups : {32767, 32768, 32769, 131072, 131073}) add(1, groups);
  add(65, 65537);
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

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  if (!too_large(c.problem()).empty()) return {};
  return one_call(c, subject);
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

void judge_group(const Problem& problem, const Inputs& inputs, const Inputs& outputs, std::int64_t group,
                 const Subject& subject, Judgement& judgement) {
  Problem alone = problem;
  alone.shape = restricted(problem.shape, subject.row.reduced);
  alone.running = false;
  const Groups groups(problem.shape, subject.row);
  const Shape origin = groups.origin(group);
  const auto share = [&](const std::vector<float>& whole, Role role) {
    const AxisSet axes = axes_of(role, subject.row);
    std::vector<float> part(static_cast<std::size_t>(element_count(restricted(alone.shape, axes))));
    groups.for_each(group, [&](std::int64_t, const Shape& at) {
      Shape inside{};
      for (std::size_t a = 0; a < axis_count; ++a) inside[a] = at[a] - origin[a];
      part[static_cast<std::size_t>(dense_index(alone.shape, axes, inside))] =
          whole[static_cast<std::size_t>(dense_index(problem.shape, axes, at))];
    });
    return part;
  };
  Inputs its_inputs;
  Inputs its_outputs;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (use_of(alone, role).read) its_inputs[role] = share(inputs[role], role);
  }
  constexpr Role of_a_group[] = {Role::y, Role::mean, Role::stat, Role::dx};
  const auto roles = written(alone, of_a_group);
  for (const Role role : roles) its_outputs[role] = share(outputs[role], role);
  const Case its_case(alone, std::move(its_inputs));
  judge_within_bounds(its_case, subject.kernel.claim, demand_of(its_case, subject), its_outputs, roles, judgement);
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  if (outcomes.empty()) {
    judgement.skipped = too_large(problem);
    if (judgement.skipped.empty()) judgement.skipped = "there was no memory for its tensors when it was to be tried";
    return judgement;
  }
  if (element_count(problem.shape) <= judged_whole) {
    judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs,
                        written(problem, output_roles), judgement);
    return judgement;
  }
  for (const std::int64_t group : judged_groups(problem)) {
    const bool before = judgement.violation.has_value();
    judge_group(problem, c.inputs(), outcomes[0].outputs, group, subject, judgement);
    if (!before && judgement.violation)
      judgement.violation->at += fmt::format("  counted inside group {} of {}", group, group_count(problem));
  }
  return judgement;
}

}  // namespace

const Property extents{
    "extents", "Extents at which indices and blocks end are extents like any others.", applies, plan, calls, judge};

}  // namespace normgate
