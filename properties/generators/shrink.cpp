// The steps from a failing problem to smaller ones, and the walk along them.
#include "properties/generators/shrink.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>

#include "reference/problem/data.hpp"

namespace normgate {
namespace {

const Problem& defaults() {
  static const Problem problem;
  return problem;
}

bool explicit_values(const Problem& problem) {
  for (std::size_t role = 0; role < role_count; ++role)
    if (!problem.values[static_cast<Role>(role)].empty()) return true;
  return false;
}

// Extents below `extent`, the most telling first: the smallest, residues around vector widths (with one whole vector
// before them), powers of two, half, one less.
std::vector<std::int64_t> smaller_extents(std::int64_t extent) {
  std::vector<std::int64_t> result;
  const auto add = [&](std::int64_t candidate) {
    if (candidate >= 1 && candidate < extent && std::find(result.begin(), result.end(), candidate) == result.end())
      result.push_back(candidate);
  };
  for (const std::int64_t small : {1, 2, 3, 4}) add(small);
  for (const std::int64_t width : {4, 8, 16, 32, 64}) {
    add(extent % width);
    if (extent % width != 0) add(width + extent % width);
  }
  for (const std::int64_t power : {8, 16, 32, 64, 256, 1024}) add(power);
  if (extent > 4) {
    add(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(extent - 1))));
    add(extent / 2);
    add(extent - 1);
  }
  return result;
}

}  // namespace

std::vector<Problem> smaller(const Problem& problem) {
  std::vector<Problem> result;
  const auto add = [&](auto&& change) {
    Problem candidate = problem;
    change(candidate);
    if (candidate == problem || !check(candidate).empty()) return;
    if (std::find(result.begin(), result.end(), candidate) == result.end()) result.push_back(std::move(candidate));
  };
  const auto plain_memory = [](Problem& p) {
    p.layout = defaults().layout;
    p.in_place = false;
    p.misalign = 0;
    p.skew = 0;
    p.fence = Fence::right;
    p.threads = 1;
  };

  add([&](Problem& p) {
    plain_memory(p);
    p.step = 1;
  });
  if (!explicit_values(problem)) {
    for (std::size_t axis = 0; axis < axis_count; ++axis)
      for (const std::int64_t extent : smaller_extents(problem.shape[axis]))
        add([&](Problem& p) { p.shape[axis] = extent; });
  }

  add([](Problem& p) { p.running = false; });
  add([](Problem& p) { p.saved = false; });
  add([](Problem& p) { p.beta = false; });
  add([](Problem& p) { p.gamma = false; });
  add([](Problem& p) { p.cotangent = Cotangent::ones; });
  if (problem.cotangent != Cotangent::ones) add([](Problem& p) { p.cotangent = Cotangent::random; });
  add([](Problem& p) { p.handed = Handed::nearest; });
  add([](Problem& p) { p.in_place = false; });
  add([](Problem& p) { p.misalign = 0; });
  add([](Problem& p) { p.skew = 0; });
  add([](Problem& p) { p.fence = Fence::right; });
  add([](Problem& p) { p.threads = 1; });
  for (std::size_t role = 0; role < role_count; ++role) {
    add([&](Problem& p) { p.layout[static_cast<Role>(role)] = Layout{}; });
    add([&](Problem& p) { p.layout[static_cast<Role>(role)].broadcast = {}; });
    add([&](Problem& p) { p.layout[static_cast<Role>(role)].pad = 0; });
    add([&](Problem& p) { p.layout[static_cast<Role>(role)].step = 1; });
    if (problem.values[static_cast<Role>(role)].size() > 8)
      add([&](Problem& p) { p.values[static_cast<Role>(role)].clear(); });
  }

  add([](Problem& p) {
    if (p.profile == Profile::parameter_rounding) {
      p.eps = defaults().eps;
      p.momentum = defaults().momentum;
    }
    p.profile = defaults().profile;
  });
  add([](Problem& p) { p.step = 1; });
  add([](Problem& p) { p.kappa = 1; });
  for (const double kappa : {10.0, 100.0, 1000.0, 1e4, 1e5})
    if (kappa < problem.kappa) add([&](Problem& p) { p.kappa = kappa; });
  add([](Problem& p) { p.scale = 0; });
  add([](Problem& p) { p.scale /= 2; });
  if (problem.profile == Profile::exact) {
    // The eps of exact data belongs to their level.
    for (const std::int32_t level : {1, 3})
      if (level < problem.level)
        if (const auto eps = exact_eps(problem.convention, level))
          add([&](Problem& p) {
            p.level = level;
            p.eps = *eps;
          });
  } else {
    for (const std::int32_t level : {1, 3})
      if (level < problem.level) add([&](Problem& p) { p.level = level; });
    if (problem.eps != 1) add([](Problem& p) { p.eps = defaults().eps; });
    if (problem.eps != defaults().eps) add([](Problem& p) { p.eps = 1; });
  }
  add([](Problem& p) { p.momentum = defaults().momentum; });
  if (problem.momentum != defaults().momentum) add([](Problem& p) { p.momentum = 0.25; });

  for (const std::uint64_t key : {0U, 1U, 2U, 3U})
    if (key < problem.key && (problem.key > 3 || key == 0)) add([&](Problem& p) { p.key = key; });
  return result;
}

Shrunk smallest(const Problem& problem, const std::function<bool(const Problem&)>& still_fails, int tries,
                const std::function<bool()>& go_on, const std::function<Problem(const Problem&)>& inside) {
  const auto steps = [&inside](const Problem& from) {
    std::vector<Problem> result = smaller(from);
    if (!inside) return result;
    for (Problem& step : result) step = inside(step);
    std::erase_if(result, [&](const Problem& step) { return step == from || !check(step).empty(); });
    return result;
  };
  const rc::Shrinkable<Problem> root = rc::shrinkable::shrinkRecur(
      Problem(problem), [&steps](const Problem& from) { return rc::seq::fromContainer(steps(from)); });
  Shrunk result{problem, 0};
  // The same candidate comes up again below another parent; its answer is known.
  std::set<std::string> known_to_pass;
  rc::Seq<rc::Shrinkable<Problem>> candidates = root.shrinks();
  while (auto candidate = candidates.next()) {
    const Problem next = candidate->value();
    std::string line = print(next);
    if (known_to_pass.contains(line)) continue;
    if (result.tries >= tries || !go_on()) break;
    ++result.tries;
    if (still_fails(next)) {
      result.problem = next;
      candidates = candidate->shrinks();
    } else {
      known_to_pass.insert(std::move(line));
    }
  }
  return result;
}

}  // namespace normgate
