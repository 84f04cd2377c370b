// γ and β enter linearly: y = γ x̂ + β. Of one x, with v = γ in use (w, or 1+w where the convention says so):
//
//   zero        v = 0 everywhere gives exactly β
//   some_zero   … in every second channel gives exactly β there, and the other channels are as they were
//   scaled      (v, β) 2^k gives 2^k y
//   turned      (-v, -β) gives -y
//   swapped     neighbouring channels' v and β change places, and so does what follows from them
//   restored    v = D, the deviation with its eps, and β = μ give x back
//   identity    v = 1 and β = 0 are the same as none
//
// Tolerances. A product with 0 is 0 in any order of three factors, and so is m a; what is left is 0 + β or β - 0, and
// 1+w is exact where w = -1: zero demands β to the bit wherever the bound of y says that nothing overflows. Round to
// nearest is symmetric in P and β (see sign_symmetry), so turned demands bits of plain w where runs agree. The others
// lie within the bound of their own problem, whose truth follows from γ and β as they are stored. restored: with v and
// β rounded to float32, Y = v r d + β and x = d + μ differ by d (v r - 1) + (β - μ), so |y - x| is at most the bound
// plus |d| |v r - 1| + |β - μ|; the terms, evaluated in double, err by less than 2^-50 (|x| + |μ| + |d|). A channel
// that several groups share has D and μ of the first one, which alone is demanded back. Preconditions: a kernel that
// has a gamma; groups with a deviation or an eps.
#include "reference/problem/affine.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

enum Which : std::size_t { zero, some_zero, scaled, turned, swapped, restored, identity, count, without };
constexpr std::array exponents{30, -20, 90, -60};

bool applies(const Subject& subject) { return is_forward(subject.phase) && supports(subject, Role::gamma); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "affine");
  constexpr std::array profiles{Profile::conditioned, Profile::outlier_channels, Profile::exact_sum,
                                Profile::conditioned, Profile::needle};
  constexpr std::array kappas{1.0, 4.0, 0.0, 60.0};
  constexpr std::array scales{0, 4, -12};
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round)
    for (const std::int64_t length : planner.lengths(1100, 8)) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 500 ? 2 : 1 + static_cast<std::int64_t>(i % 4);
      recipe.profile = profiles[i % profiles.size()];
      recipe.kappa = kappas[i % kappas.size()];
      recipe.scale = scales[i % scales.size()];
      recipe.level = 3;
      recipe.gamma = 1;
      recipe.beta = i % 5 == 4 ? 0 : 1;
      if (i % 3 == 1) recipe.eps = std::ldexp(0.5, 2 * recipe.scale);
      recipe.layouts = i % 3 == 2;
      planner.add(recipe);
      ++i;
    }
  // More channels than a block of parameters has, few and many elements of each.
  for (const Shape& shape : {Shape{2, 3, 5, 7}, {3, 1, 33, 2}, {2, 4, 17, 1}, {1, 1, 130, 3}, {5, 2, 1, 9}}) {
    Problem problem;
    problem.shape = shape;
    problem.kappa = 2;
    planner.add(problem);
  }
  return planner.take();
}

int exponent_of(const Problem& problem) { return exponents[problem.key % exponents.size()]; }

float stored(const Problem& problem, double v) {
  return static_cast<float>(problem.convention.gamma == GammaOffset::plus_one ? v - 1 : v);
}

std::size_t channel_of(const Problem& problem, const VariantRow& row, const Shape& at) {
  return static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
}

// D and μ of each channel's first group.
void restore(const Case& c, const VariantRow& row, Inputs& inputs) {
  const Problem& problem = c.problem();
  const Groups groups(problem.shape, row);
  for (std::int64_t q = groups.count(); q-- > 0;) {
    const GroupTruth& group = c.truth().groups[static_cast<std::size_t>(q)];
    groups.for_each(q, [&](std::int64_t, const Shape& at) {
      const std::size_t channel = channel_of(problem, row, at);
      inputs[Role::gamma][channel] = stored(problem, 1 / group.rstd.hi);
      if (problem.beta) inputs[Role::beta][channel] = static_cast<float>(row.centred ? group.mean.hi : 0);
    });
  }
}

const Case& with(const Case& c, const VariantRow& row, std::size_t which) {
  return c.derived(which, [&] {
    Problem problem = c.problem();
    Inputs inputs = c.inputs();
    auto& gamma = inputs[Role::gamma];
    auto& beta = inputs[Role::beta];
    const double plus = problem.convention.gamma == GammaOffset::plus_one ? 1 : 0;
    const auto use_times = [&](double factor) {
      for (float& w : gamma) w = stored(problem, (static_cast<double>(w) + plus) * factor);
      for (float& b : beta) b = static_cast<float>(static_cast<double>(b) * factor);
    };
    switch (which) {
      case zero:
        for (float& w : gamma) w = stored(problem, 0);
        break;
      case some_zero:
        for (std::size_t i = problem.key % 2; i < gamma.size(); i += 2) gamma[i] = stored(problem, 0);
        break;
      case scaled:
        use_times(std::ldexp(1.0, exponent_of(problem)));
        break;
      case turned:
        use_times(-1);
        break;
      case swapped:
        for (auto* values : {&gamma, &beta})
          for (std::size_t i = 0; i + 1 < values->size(); i += 2) std::swap((*values)[i], (*values)[i + 1]);
        break;
      case restored:
        restore(c, row, inputs);
        break;
      case identity:
        for (float& w : gamma) w = stored(problem, 1);
        std::fill(beta.begin(), beta.end(), 0.0F);
        break;
      default:  // without: the same result by definition
        problem.gamma = problem.beta = false;
        gamma.clear();
        beta.clear();
        break;
    }
    return Case(problem, std::move(inputs));
  });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  if (!c.problem().gamma) return result;
  for (std::size_t which = 0; which < count; ++which)
    result.push_back(call_of(c.problem(), with(c, subject.row, which).inputs(), subject));
  return result;
}

// y is exactly β where gamma in use is 0 (0 where β is subnormal and the claim flushes). `demand` tells where nothing
// overflows and y is a number: of this problem, or of one with other gamma and beta.
void judge_zeros(const Case& c, const Subject& subject, const Demand& demand, const Inputs& outputs,
                 Judgement& judgement) {
  const VariantRow& row = subject.row;
  const bool flushes = subject.kernel.claim.subnormals == Subnormals::flushed;
  const Problem& problem = c.problem();
  const Groups groups(problem.shape, row);
  for (std::int64_t q = 0; q < groups.count(); ++q)
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      if (gamma_in_use(problem, c.inputs(), row, at) != 0) return;
      if (demand.bounds->tolerance[Role::y][index] == infinity || !demand.truth->out[Role::y][index].finite()) {
        ++judgement.not_judged;
        return;
      }
      ++judgement.elements;
      const double beta = beta_in_use(problem, c.inputs(), row, at);
      const auto got = static_cast<double>(outputs[Role::y][index]);
      if (got == beta || judgement.violation) return;
      if (flushes && got == 0 && std::fabs(beta) < 0x1p-126) return;
      Violation violation;
      violation.at = place(problem, Role::y, index, outputs[Role::y]);
      violation.got = both_ways(got);
      violation.want = both_ways(beta);
      violation.error = "gamma in use is 0: a product with 0 is 0, and exactly beta is left";
      judgement.violation = std::move(violation);
    });
}

void judge_restored(const Case& c, const VariantRow& row, const Demand& demand, const Inputs& outputs,
                    Judgement& judgement) {
  const Problem& problem = c.problem();
  const Groups groups(problem.shape, row);
  std::vector<bool> owned(c.inputs()[Role::gamma].size(), false);
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const GroupTruth& group = demand.truth->groups[static_cast<std::size_t>(q)];
    std::vector<std::size_t> channels;
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const std::size_t channel = channel_of(problem, row, at);
      if (owned[channel]) return;
      channels.push_back(channel);
      const auto index = static_cast<std::size_t>(i);
      const double v = gamma_in_use(problem, c.inputs(), row, at);
      const double beta = beta_in_use(problem, c.inputs(), row, at);
      const auto x = static_cast<double>(c.inputs()[Role::x][index]);
      const double mean = row.centred ? group.mean.hi : 0;
      const double d = minus(x, group.mean);
      const double target = row.centred && !problem.beta ? d : x;
      const double moved = problem.beta ? std::fabs(beta - mean) : 0;
      const double tolerance = demand.bounds->tolerance[Role::y][index] + demand.truth->out[Role::y][index].bound +
                               std::fabs(d) * std::fabs(v * group.rstd.hi - 1) + moved +
                               0x1p-50 * (std::fabs(x) + std::fabs(mean) + std::fabs(d));
      if (!(tolerance < infinity)) {
        ++judgement.not_judged;
        return;
      }
      ++judgement.elements;
      const auto got = static_cast<double>(outputs[Role::y][index]);
      const double error = std::fabs(got - target);
      if (error <= tolerance || judgement.violation) return;
      Violation violation;
      violation.at = place(problem, Role::y, index, outputs[Role::y]);
      violation.got = both_ways(got);
      violation.want =
          fmt::format("{}, which is {}", both_ways(target), row.centred && !problem.beta ? "x - mean" : "x");
      violation.error = fmt::format("differs by {:.4g}, {:.4g} of the bound {:.4g}   ({})", error, error / tolerance,
                                    tolerance, "gamma is the deviation and beta the mean");
      judgement.violation = std::move(violation);
    });
    for (const std::size_t channel : channels) owned[channel] = true;
  }
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  if (!problem.gamma || element_count(problem.shape) == 0) {
    judgement.discarded = true;
    return judgement;
  }
  const auto& claim = subject.kernel.claim;
  constexpr Role roles[] = {Role::y};
  constexpr std::array words{
      "gamma 0",          "gamma 0 in every second channel",    "gamma and beta times 2^k", "gamma and beta turned",
      "channels swapped", "gamma the deviation, beta the mean", "gamma 1 and beta 0"};
  const Demand plain = demand_of(c, subject);
  for (std::size_t which = 0; which < count && !judgement.violation; ++which) {
    const Case& other = with(c, subject.row, which);
    const Inputs& outputs = outcomes[1 + which].outputs;
    if (which == zero) {
      judge_zeros(other, subject, plain, outputs, judgement);
    } else if (which == turned && claim.deterministic && problem.convention.gamma == GammaOffset::plain) {
      Inputs expected = outcomes[0].outputs;
      for (float& value : expected[Role::y]) value = -value;
      judge_equal(other, expected, outputs, roles, nullptr, "with gamma and beta turned", judgement);
    } else {
      Demand demand = demand_of(other, subject);
      if (which == some_zero) judge_zeros(other, subject, demand, outputs, judgement);
      if (which == restored) judge_restored(other, subject.row, demand, outputs, judgement);
      if (which == identity) demand.truth = &with(c, subject.row, without).truth();
      judge_within_bounds(other, claim, demand, outputs, roles, judgement);
    }
    if (judgement.violation) judgement.violation->at += fmt::format("  with {}", words[which]);
  }
  return judgement;
}

}  // namespace

const Property affine{"affine", "Gamma and beta enter linearly, each where it belongs.", applies, plan, calls, judge};

}  // namespace normgate
