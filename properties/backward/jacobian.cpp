// The Jacobian of y by x, gamma and beta, row by row: each element of dy is 1 in a call of its own, and 0 everywhere
// else. With J_ij = dy_i/dx_j as the kernel gives it and J_i* all of the call of element i:
//   each J_ij is what the forward's definition does to y_i when x_j moves, and 0 between groups; likewise dgamma is x^
//   and dbeta 1 in the channel of i, and 0 in the others;
//   S_ij = J_ij/gamma_i, the derivative of x^, is symmetric in training: gamma_j J_ij = gamma_i J_ji;
//   J 1 = 0 and 1 S = 0 in centred training: neither moving all of x nor dy = 1/gamma does anything;
//   J x^ = E gamma x^ in training, with the term E that eps leaves (gradient_identities).
//
// Proof. x^ depends on x through d = x - mean and D alone: dx^_i/dx_j = r (delta_ij - 1/n [centred]) - q d_i d_j/N_v,
// which is symmetric; its rows sum to 0 as Σd = 0; and Σ_j d_j r of it is E x^_i (see there).
// Tolerances. J_ij is within t_ij of the derivative: the kernel's bound of the function that it computes with this dy,
// and what that function differs from the derivative. Sums and differences of elements are within the sums of the
// moduli of their weights times these, plus what double rounds: n 2^-48 of the moduli. The witness of the elements is
// tangent(), which has no closed form, with its own bound; larger problems are judged by the closed form, at some
// elements of dy only. Preconditions: x at hand; finite inputs; statistics handed as they are; groups at a kink of the
// forward are left out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/backward/terms.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/affine.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

// Up to so many elements the whole Jacobian is assembled.
constexpr std::int64_t most_elements = 72;

bool applies(const Subject& subject) {
  const bool from_output =
      subject.phase == Phase::backward_training && subject.kernel.claim.saved_use == SavedUse::from_output;
  return is_backward(subject.phase) && is_new_to_backward(subject) && !from_output;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "jacobian");
  constexpr std::array kappas{1.0, 0.0, 10.0};
  constexpr std::array eps_values{0.25F, 1e-3F, 1.0F, 1e-5F};
  std::size_t i = 0;
  const auto add = [&](std::int64_t length, std::int64_t groups) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.profile = i % 5 == 4 ? Profile::outlier_channels : Profile::conditioned;
    recipe.kappa = kappas[i % kappas.size()];
    recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
    recipe.cotangent = Cotangent::unit;
    recipe.handed = Handed::nearest;
    recipe.layouts = i % 4 == 3;
    planner.add(recipe);
    ++i;
  };
  using Count = std::pair<std::int64_t, std::int64_t>;
  std::vector<Count> counts{{8, 3}, {3, 4}, {16, 1}, {5, 2}, {2, 9}};
  if (planner.primary()) {
    counts.insert(counts.end(), {{4, 5}, {17, 2}, {1, 6}, {33, 1}, {12, 2}, {7, 3}, {64, 1}});
    // At some elements of dy. What a sum over 65543 rows loses at its end is nothing beside its bound, unless there is
    // nothing else in it.
    counts.insert(counts.end(), {{64, 9}, {100, 3}, {768, 2}, {6, 130}});
    const bool many_in_a_group = subject.row.reduced.has(Axis::n);
    for (const std::int64_t many : {1030, 5000, 65536 + 7})
      if (many < 65536 || is_training(subject.phase))
        counts.push_back(many_in_a_group ? Count{many, 2} : Count{2, many});
  }
  if (effort != Effort::quick)
    counts.insert(counts.end(),
                  {{6, 3}, {9, 4}, {10, 2}, {15, 2}, {24, 2}, {32, 2}, {48, 1}, {129, 5}, {1024, 3}, {3, 300}});
  for (std::int64_t round = 0; round < planner.by_effort(1, 2, 6); ++round)
    for (const auto& [length, groups] : counts) add(length, groups);
  return planner.take();
}

bool is_whole(const Case& c) { return element_count(c.problem().shape) <= most_elements; }

// The elements of dy that are 1 in turn.
std::vector<std::size_t> units_of(const Case& c) {
  const auto count = static_cast<std::size_t>(element_count(c.problem().shape));
  std::vector<std::size_t> units;
  if (is_whole(c)) {
    for (std::size_t i = 0; i < count; ++i) units.push_back(i);
    return units;
  }
  units.push_back(count - 1);
  const bool few = count > 8192;
  if (!few) units.insert(units.end(), {0, 1, count / 2, count - 2});
  for (std::uint64_t j = 0; j < (few ? 1 : 5); ++j) {
    const std::size_t i = random_words(c.problem().key, 0x7AC0B, j).w[0] % count;
    if (std::find(units.begin(), units.end(), i) == units.end()) units.push_back(i);
  }
  return units;
}

const Case& with_unit(const Case& c, std::size_t unit) {
  return c.derived(unit, [&c, unit] {
    Problem problem = c.problem();
    problem.layout[Role::dy].broadcast = {};
    problem.values[Role::dy].clear();
    Inputs inputs = c.inputs();
    std::fill(inputs[Role::dy].begin(), inputs[Role::dy].end(), 0.0F);
    inputs[Role::dy][unit] = 1.0F;
    return Case(problem, std::move(inputs));
  });
}

bool is_judged(const Case& c) {
  const Problem& problem = c.problem();
  return !problem.from_output && problem.handed == Handed::nearest && problem.profile != Profile::special &&
         element_count(problem.shape) > 0;
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  if (!is_judged(c)) return one_call(c, subject);
  std::vector<runner::Call> result;
  for (const std::size_t unit : units_of(c))
    result.push_back(call_of(with_unit(c, unit).problem(), with_unit(c, unit).inputs(), subject));
  return result;
}

// Moves the element at one position of each group, or all of a parameter.
Direction along_position(const Case& c, std::int64_t position) {
  Direction direction;
  direction[Role::x].resize(c.inputs()[Role::x].size());
  const Groups groups(c.problem().shape, row_of(c.problem().variant));
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::int64_t p = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      if (p++ == position) direction[Role::x][static_cast<std::size_t>(i)] = 1;
    });
  }
  return direction;
}

class Jacobian {
 public:
  Jacobian(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes)
      : case_(c),
        problem_(c.problem()),
        subject_(subject),
        outcomes_(outcomes),
        units_(units_of(c)),
        groups_(c.problem().shape, subject.row) {
    const auto count = static_cast<std::size_t>(element_count(problem_.shape));
    group_.resize(count), position_.resize(count), channel_.resize(count), gamma_.resize(count);
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      std::size_t p = 0;
      groups_.for_each(q, [&](std::int64_t e, const Shape& at) {
        const auto i = static_cast<std::size_t>(e);
        group_[i] = static_cast<std::size_t>(q);
        position_[i] = p++;
        channel_[i] = static_cast<std::size_t>(dense_index(problem_.shape, subject_.row.affine, at));
        gamma_[i] = gamma_in_use(problem_, c.inputs(), subject_.row, at);
      });
    }
  }

  Judgement judge() {
    const auto roles = written(problem_, gradient_roles);
    for (std::size_t k = 0; k < units_.size(); ++k) {
      const Case& unit = with_unit(case_, units_[k]);
      Demand demand = demand_around_derivative(unit, subject_);
      Truth witness;
      if (is_whole(case_)) {
        witness = witness_of(units_[k], demand);
        demand.truth = &witness;
      }
      judge_within_bounds(unit, subject_.kernel.claim, demand, outcomes_[k].outputs, roles, judgement_);
      tolerance_.push_back(demand.bounds->tolerance[Role::dx]);
    }
    if (is_training(problem_.phase) && is_whole(case_) && !judgement_.violation)
      for (std::int64_t q = 0; q < groups_.count(); ++q) judge_group(q);
    return std::move(judgement_);
  }

 private:
  // The gradients of one element of y by the definition, in the place of the truth; the tolerance takes in its bound.
  Truth witness_of(std::size_t unit, Demand& demand) const {
    Truth witness;
    witness.groups = case_.gradient(SavedUse::recomputes).groups;
    const auto enter = [&](Role role, bool depends, std::size_t i, const Exact& derivative) {
      Exact exact = depends ? derivative : Exact{};
      const auto& old = with_unit(case_, unit).inputs()[role];
      if (role != Role::dx && !old.empty()) {
        // Rounded once in double.
        exact.hi += static_cast<double>(old[i]);
        exact.bound += std::fabs(exact.hi) * 0x1p-52 + std::fabs(exact.lo);
      }
      demand.bounds.own().tolerance[role][i] += exact.bound;
      // What is NaN by definition whatever dy is (one value under n-1, times 0) is the business of other properties.
      if (!demand.truth->out[role][i].finite()) demand.bounds.own().tolerance[role][i] = infinity;
      witness.out[role].push_back(exact);
    };
    for (std::size_t j = 0; j < group_.size(); ++j) {
      const auto position = static_cast<std::int64_t>(position_[j]);
      const Tangent& along = case_.tangent_along(position_[j] + 2, [&] { return along_position(case_, position); });
      enter(Role::dx, group_[j] == group_[unit], j, along.y[unit]);
      if (along.kink[group_[j]]) demand.bounds.own().tolerance[Role::dx][j] = infinity;
    }
    // y_i depends on its own channel alone: moving all of them moves it by that.
    const auto parameter = [&](Role role, Role gradient, std::size_t which) {
      const std::size_t channels = demand.bounds->tolerance[gradient].size();
      const Tangent& along = case_.tangent_along(which, [&] {
        Direction direction;
        direction[role].assign(channels, 1.0);
        return direction;
      });
      for (std::size_t i = 0; i < channels; ++i) enter(gradient, channel_[unit] == i, i, along.y[unit]);
    };
    if (problem_.gamma) parameter(Role::gamma, Role::dgamma, 0);
    if (problem_.beta) parameter(Role::beta, Role::dbeta, 1);
    return witness;
  }

  [[nodiscard]] double element(std::size_t i, std::size_t j) const {
    return static_cast<double>(outcomes_[i].outputs[Role::dx][j]);
  }

  void judge_group(std::int64_t q) {
    std::vector<std::size_t> index;
    groups_.for_each(q, [&](std::int64_t i, const Shape&) { index.push_back(static_cast<std::size_t>(i)); });
    const GroupTerms terms =
        terms_of(case_, case_.gradient(SavedUse::recomputes).groups[static_cast<std::size_t>(q)], q);
    bool judged = !terms.index.empty();
    for (const std::size_t i : index)
      for (const std::size_t j : index) judged = judged && tolerance_[i][j] < infinity;
    if (!judged) {
      judgement_.not_judged += groups_.size();
      return;
    }
    const double rounding = static_cast<double>(groups_.size()) * 0x1p-48;
    const auto where = [&](std::size_t i, std::string_view what) {
      return fmt::format("{}, with {} = 1 alone", what, place(problem_, Role::dy, i));
    };
    for (const std::size_t i : index)
      for (const std::size_t j : index) {
        if (j <= i) continue;
        const double a = gamma_[j] * element(i, j);
        const double b = gamma_[i] * element(j, i);
        const double allowed = std::fabs(gamma_[j]) * tolerance_[i][j] + std::fabs(gamma_[i]) * tolerance_[j][i] +
                               (std::fabs(a) + std::fabs(b)) * rounding;
        demand(a, b, allowed, where(i, fmt::format("gamma * {} against its mirror", place(problem_, Role::dx, j))), i);
      }
    const auto& d = terms.d;
    const double eps_term = eps_term_of(terms);
    for (std::size_t p = 0; p < index.size(); ++p) {
      const std::size_t i = index[p];
      double row = 0, row_allowed = 0, column = 0, column_allowed = 0, hat = 0, hat_allowed = 0;
      for (std::size_t other = 0; other < index.size(); ++other) {
        const std::size_t j = index[other];
        const double normalized = d[other] * terms.r;
        row += element(i, j);
        row_allowed += tolerance_[i][j] + std::fabs(element(i, j)) * rounding;
        hat += element(i, j) * normalized;
        hat_allowed += std::fabs(normalized) * (tolerance_[i][j] + std::fabs(element(i, j)) * rounding);
        // 0/0 says nothing; a gamma of 0 leaves no trace of its row.
        if (gamma_[j] == 0) column_allowed = infinity;
        const double weight = gamma_[j] == 0 ? 0 : 1 / gamma_[j];
        column += weight * element(j, i);
        column_allowed += std::fabs(weight) * (tolerance_[j][i] + std::fabs(element(j, i)) * rounding);
      }
      if (subject_.row.centred) {
        demand(row, 0, row_allowed, where(i, "sum of dx"), i);
        demand(column, 0, column_allowed,
               fmt::format("{} summed over dy = 1/gamma, one element after the other", place(problem_, Role::dx, i)),
               i);
      }
      const double normalized = d[p] * terms.r;
      const double want = eps_term * gamma_[i] * normalized;
      const double moduli = terms.r * std::fabs(gamma_[i] * normalized) * (2 + normalized * normalized);
      demand(hat, want, hat_allowed + moduli * rounding, where(i, "sum of dx * (x - mean) / D"), i);
    }
  }

  // E of gradient_identities.
  [[nodiscard]] double eps_term_of(const GroupTerms& terms) const {
    if (terms.q <= 0) return terms.r;
    switch (problem_.convention.eps) {
      case EpsPlacement::inside:
        return terms.r * terms.r * terms.r * problem_.eps;
      case EpsPlacement::outside:
        return terms.r * terms.r * problem_.eps;
      case EpsPlacement::floor:
        break;
    }
    return 0;
  }

  void demand(double got, double want, double allowed, const std::string& at, std::size_t unit) {
    if (!(allowed < infinity)) {
      ++judgement_.not_judged;
      return;
    }
    ++judgement_.elements;
    const double error = std::fabs(got - want);
    const double share = error == 0 ? 0 : error / allowed;
    if (share > judgement_.worst_share) {
      judgement_.worst_share = share;
      judgement_.worst_role = Role::dx;
    }
    if (error <= allowed || judgement_.violation) return;
    Violation violation;
    violation.at = at;
    violation.got = both_ways(got);
    violation.want = fmt::format("{} within {:.4g}", shortest(want), allowed);
    violation.error = fmt::format("{:.4g} of the bound   ({})", share,
                                  bound_in_words(with_unit(case_, unit), subject_.kernel.claim, unit, Role::dx));
    judgement_.violation = std::move(violation);
  }

  const Case& case_;
  const Problem& problem_;
  const Subject& subject_;
  std::span<const runner::Outcome> outcomes_;
  std::vector<std::size_t> units_;
  Groups groups_;
  std::vector<std::size_t> group_, position_, channel_;
  std::vector<double> gamma_;
  std::vector<std::vector<double>> tolerance_;  // of dx, by call
  Judgement judgement_;
};

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  if (is_judged(c)) return Jacobian(c, subject, outcomes).judge();
  Judgement judgement;
  judgement.discarded = true;
  return judgement;
}

}  // namespace

const Property jacobian{
    "jacobian", "The Jacobian is the definition's, element by element, symmetric, with 1 in its null space.",
    applies,    plan,
    calls,      judge};

}  // namespace normgate
