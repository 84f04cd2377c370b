// Shifting a group by a constant leaves y, the deviation and the running variance as they are and moves the mean by it;
// so does a bias added before a batch norm. Where statistics are given, the given mean moves along.
//
// x + c is the shifted group's own input only where every sum is exact. With g the largest power of two that all
// elements of a group (and its given mean) are multiples of, and A the largest modulus, c = m g is so for every integer
// |m| <= 2^24 - A/g. Three shifts: each group by a constant of its own, as large as sums of the group stay exact in
// float32 (m n + Σ|x|/g < 2^24), where the bound is sharp; one power of two for all groups, the largest that all have
// room for; and each group by any size up to its room. The truths of the shifted and of the plain problem are then the
// same real numbers but for the mean, so y of the shifted problem lies within the shifted problem's bound of the plain
// problem's truth; with accuracy for the plain one, both results differ by at most the sum of their bounds.
// Preconditions: centred rows; a group that has room.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/bounds/statistics.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

enum Which : std::size_t { sharp, together, far_away };
constexpr std::size_t shifts = 3;
// Draws that no profile makes.
constexpr std::uint64_t stream_of_shifts = 0x5817;

bool applies(const Subject& subject) { return is_forward(subject.phase) && subject.row.centred; }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "shift_invariance");
  // Without a centre the data have bits to spare; integers have most.
  constexpr std::array profiles{Profile::conditioned, Profile::exact_sum, Profile::exact, Profile::conditioned,
                                Profile::exact_sum};
  constexpr std::array scales{0, -30, 12, 3, -60, 40};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round)
    for (const std::int64_t length : planner.lengths(4200, 4)) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 1000 ? 2 : 0;
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = 0;
      recipe.level = 1 + static_cast<std::int32_t>(i % 3) * 2;
      recipe.scale = scales[(i / 2) % scales.size()];
      recipe.layouts = i % 4 == 3;
      // Of the data's own size, where a mean that is off shows in every element.
      if (recipe.profile == Profile::conditioned && i % 2 == 0) recipe.eps = std::ldexp(0.25, 2 * recipe.scale);
      planner.add(recipe);
      ++i;
    }
  planner.add_shapes({Profile::exact_sum});
  return planner.take();
}

// What is shifted by one constant: a group, or all groups that are given one running mean.
struct Cell {
  double grid = infinity;
  double most = 0;     // max |x|
  double modulus = 0;  // Σ|x| of the largest group
};

std::size_t cell_of(const Problem& problem, const VariantRow& row, const Groups& groups, std::int64_t group) {
  if (problem.given != Given::running) return static_cast<std::size_t>(group);
  return static_cast<std::size_t>(dense_index(problem.shape, row.running, groups.origin(group)));
}

Role given_mean(const Problem& problem) { return problem.given == Given::running ? Role::running_mean : Role::mean; }

std::vector<Cell> cells_of(const Problem& problem, const VariantRow& row, const Groups& groups, const Inputs& inputs) {
  const bool given = problem.given != Given::none;
  std::vector<Cell> cells(given ? inputs[given_mean(problem)].size() : static_cast<std::size_t>(groups.count()));
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    Cell& cell = cells[cell_of(problem, row, groups, q)];
    double modulus = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const auto x = static_cast<double>(inputs[Role::x][static_cast<std::size_t>(i)]);
      cell.grid = std::isfinite(x) ? std::min(cell.grid, bounds::grid_of(x)) : 0;
      cell.most = std::max(cell.most, std::fabs(x));
      modulus += std::fabs(x);
    });
    cell.modulus = std::max(cell.modulus, modulus);
  }
  if (given)
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto mean = static_cast<double>(inputs[given_mean(problem)][i]);
      cells[i].grid = std::isfinite(mean) ? std::min(cells[i].grid, bounds::grid_of(mean)) : 0;
      cells[i].most = std::max(cells[i].most, std::fabs(mean));
    }
  // A group of zeros may be shifted by anything.
  for (Cell& cell : cells)
    if (cell.grid == infinity) cell.grid = 1;
  return cells;
}

// The largest m; 0 where there is no room (also for grids so fine or coarse that the range would be at stake).
double room_of(const Cell& cell) {
  if (!(cell.grid >= 0x1p-120 && cell.grid <= 0x1p60)) return 0;
  return std::max(0.0, std::floor(0x1p24 - cell.most / cell.grid));
}

std::vector<double> constants(const Problem& problem, const Groups& groups, const std::vector<Cell>& cells,
                              std::size_t which) {
  std::vector<double> result(cells.size(), 0.0);
  double smallest = infinity, coarsest = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const double room = room_of(cell);
    smallest = std::min(smallest, room * cell.grid);
    coarsest = std::max(coarsest, cell.grid);
    if (room < 1) continue;
    const Words words = random_words(problem.key, stream_of_shifts + which, i);
    double m = room;
    if (which == sharp) {
      const double exact = std::floor((0x1p24 - 1 - cell.modulus / cell.grid) / static_cast<double>(groups.size())) - 1;
      if (exact >= 1) m = std::min(exact, room);
      m -= std::floor(m / 2 * (static_cast<double>(words.w[0] >> 8U) * 0x1p-24));
    } else {
      m = std::max(
          1.0, std::floor(std::ldexp(room, -static_cast<int>(words.w[0] % 20))) - static_cast<double>(words.w[2] % 2));
    }
    result[i] = ((words.w[1] & 1U) != 0 ? -m : m) * cell.grid;
  }
  if (which == together && !cells.empty()) {
    const double c = smallest > 0 ? std::ldexp(1.0, std::ilogb(smallest)) : 0;
    const bool negative = (random_words(problem.key, stream_of_shifts, 0).w[3] & 1U) != 0;
    std::fill(result.begin(), result.end(), c < coarsest ? 0.0 : negative ? -c : c);
  }
  return result;
}

bool adds_exactly(float x, double c) {
  return static_cast<double>(static_cast<float>(static_cast<double>(x) + c)) - c == static_cast<double>(x);
}

struct Shifted {
  Inputs inputs;
  std::vector<double> by;  // by cell
  bool any = false;
};

Shifted shifted(const Case& c, const VariantRow& row, std::size_t which) {
  const Problem& problem = c.problem();
  const Groups groups(problem.shape, row);
  Shifted result{c.inputs(), {}, false};
  if (groups.size() == 0 || groups.count() == 0) return result;
  result.by = constants(problem, groups, cells_of(problem, row, groups, c.inputs()), which);
  const bool given = problem.given != Given::none;
  const bool weighed =
      problem.given == Given::running && problem.convention.momentum == MomentumForm::accumulated_weight;
  const double weight = weighed ? static_cast<double>(c.inputs()[Role::running_weight][0]) : 1;
  if (given)
    for (std::size_t i = 0; i < result.by.size(); ++i) {
      float& mean = result.inputs[given_mean(problem)][i];
      // What is stored is the mean times the weight.
      const double stored = result.by[i] * weight;
      if (stored / weight != result.by[i] || !adds_exactly(mean, stored)) result.by[i] = 0;
      if (result.by[i] != 0) mean = static_cast<float>(static_cast<double>(mean) + stored);
    }
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const double by = result.by[cell_of(problem, row, groups, q)];
    if (by == 0) continue;
    result.any = true;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      float& x = result.inputs[Role::x][static_cast<std::size_t>(i)];
      x = static_cast<float>(static_cast<double>(x) + by);
    });
  }
  return result;
}

const Case& shifted_case(const Case& c, const VariantRow& row, std::size_t which) {
  return c.derived(which, [&] { return Case(c.problem(), shifted(c, row, which).inputs); });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result;
  for (std::size_t which = 0; which < shifts; ++which)
    result.push_back(call_of(c.problem(), shifted_case(c, subject.row, which).inputs(), subject));
  return result;
}

// exact + c, without a rounding that its bound does not tell.
Exact moved(const Exact& exact, double c) {
  if (!exact.finite()) return exact;
  const double sum = exact.hi + c;
  const double part = sum - exact.hi;
  const double rest = (exact.hi - (sum - part)) + (c - part);
  const double low = rest + exact.lo;
  return {sum, low, (exact.bound + (std::fabs(rest) + std::fabs(exact.lo)) * 0x1p-52) * (1 + 0x1p-50)};
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  bool any = false;
  for (std::size_t which = 0; which < shifts && !judgement.violation; ++which) {
    const Shifted shift = shifted(c, subject.row, which);
    if (!shift.any) continue;
    any = true;
    const Case& other = shifted_case(c, subject.row, which);
    Demand demand = demand_of(other, subject);
    Truth expected = *demand.truth;
    for (const Role role : {Role::y, Role::stat, Role::running_var}) expected.out[role] = c.truth().out[role];
    expected.out[Role::mean] = c.truth().out[Role::mean];
    for (std::size_t q = 0; q < expected.out[Role::mean].size(); ++q)
      expected.out[Role::mean][q] = moved(expected.out[Role::mean][q], shift.by[q]);
    demand.truth = &expected;
    constexpr Role roles[] = {Role::y, Role::mean, Role::stat, Role::running_mean, Role::running_var};
    judge_within_bounds(other, subject.kernel.claim, demand, outcomes[which].outputs, written(problem, roles),
                        judgement);
    if (!judgement.violation) continue;
    constexpr std::array words{"constants of their own, sums still exact", "one power of two",
                               "constants of their own"};
    judgement.violation->at +=
        fmt::format("  with groups shifted by {}, the first by {}", words[which], shortest(shift.by.front()));
  }
  judgement.discarded = !any;
  return judgement;
}

}  // namespace

const Property shift_invariance{
    "shift_invariance", "A constant added to a group moves its mean and nothing else.", applies, plan, calls, judge};

}  // namespace normgate
