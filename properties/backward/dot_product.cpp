// <dy, J v> = <J^T dy, v> for directions v in x, gamma and beta: what the forward's definition does along v, weighed by
// dy, is what the gradients weighed by v say. J v is a difference of the definition (reference/truth/tangent.hpp),
// which knows no closed form and, unlike a difference per element, has no limit on the length of a group.
//
// Tolerance. A kernel is within t_i of the derivative (its bound of the function that it computes, plus what that
// function differs from the derivative where it declares a use of handed statistics), so Σ v_i dx_i is within Σ |v_i|
// t_i of <J^T dy, v>; the witness adds Σ |dy_i| times its own bound, and what double rounds here is covered by n 2^-50
// of the moduli. dx is judged group by group, dgamma and dbeta over all channels, less what they are added to.
//
// v is a + b x^ + z/2 in each group, a and b of ±(1 … 2): a lost term is a multiple of 1 or of x^ and shows there
// however long the group is, while along noise alone it would drown in Σ |v_i| t_i. Each problem is tried with its own
// dy, and with one that is 0 but for up to 16 elements at a drawn place of each group.
// Preconditions: x at hand; finite inputs; statistics handed as they are; groups at a kink of the forward have no
// derivative, and their dx is left out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) {
  const bool from_output =
      subject.phase == Phase::backward_training && subject.kernel.claim.saved_use == SavedUse::from_output;
  return is_backward(subject.phase) && is_new_to_backward(subject) && !from_output;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "dot_product");
  constexpr std::array kappas{1.0, 20.0, 0.0, 300.0};
  constexpr std::array eps_values{1e-5F, 0.5F, 1e-3F, 1.0F};
  constexpr std::array cotangents{Cotangent::random, Cotangent::mixed, Cotangent::normalized, Cotangent::random,
                                  Cotangent::ones};
  std::size_t i = 0;
  const auto add = [&](std::int64_t length, std::int64_t groups, bool affine) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.profile = i % 7 == 6 ? Profile::outlier_channels : Profile::conditioned;
    recipe.kappa = kappas[i % kappas.size()];
    recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
    recipe.cotangent = cotangents[i % cotangents.size()];
    recipe.handed = Handed::nearest;
    if (affine) recipe.gamma = recipe.beta = 1;
    recipe.layouts = !affine && i % 4 == 3;
    planner.add(recipe);
    ++i;
  };
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round) {
    for (const std::int64_t length : planner.lengths(effort == Effort::quick ? 1300 : 5200, 9))
      add(length, length > 300 ? 1 : 1 + static_cast<std::int64_t>(i % 3), false);
    if (!planner.primary() || round > 0) continue;
    // Widths of large models, at which a row no longer fits in what it is kept in, and many rows.
    if (is_training(subject.phase))
      for (const std::int64_t length : {9216, 12288}) add(length, 1, true);
    add(5, 300, true);
    add(2, is_training(subject.phase) ? 4500 : 1030, true);
    if (effort == Effort::quick) continue;
    for (const std::int64_t length : {10240, 14336, 20480}) add(length, 1, true);
    add(3, 9001, true);
  }
  return planner.take();
}

// In [-2, 2).
double drawn(const Problem& problem, std::uint64_t stream, std::size_t i) {
  const Words words = random_words(problem.key, stream, i);
  return static_cast<double>(words.w[0] >> 12U) * 0x1p-18 - 2;
}
// ±(1 … 2).
double away_from_0(double value) { return value < 0 ? -1 + value / 2 : 1 + value / 2; }

// Streams of words that no input is drawn from.
enum Stream : std::uint64_t { of_x = 0xD0700, of_gamma, of_beta, of_group, of_place, of_dy };

Direction along_x(const Case& c) {
  const Problem& problem = c.problem();
  const VariantRow& row = row_of(problem.variant);
  const Groups groups(problem.shape, row);
  const auto& statistics = c.gradient(SavedUse::recomputes).groups;
  Direction direction;
  direction[Role::x].resize(c.inputs()[Role::x].size());
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    const auto at = static_cast<std::size_t>(q);
    const double a = away_from_0(drawn(problem, of_group, 2 * at));
    const double b = away_from_0(drawn(problem, of_group, 2 * at + 1));
    const bool known = statistics[at].rstd.finite() && statistics[at].mean.finite();
    groups.for_each(q, [&](std::int64_t e, const Shape&) {
      const auto i = static_cast<std::size_t>(e);
      const double x = static_cast<double>(c.inputs()[Role::x][i]);
      const double normalized = known ? (x - statistics[at].mean.hi) * statistics[at].rstd.hi : 0;
      direction[Role::x][i] = a + b * normalized + drawn(problem, of_x, i) / 2;
    });
  }
  return direction;
}

Direction along_parameter(const Case& c, Role role, Stream stream) {
  Direction direction;
  const auto channels = element_count(restricted(c.problem().shape, row_of(c.problem().variant).affine));
  for (std::int64_t i = 0; i < channels; ++i)
    direction[role].push_back(away_from_0(drawn(c.problem(), stream, static_cast<std::size_t>(i))));
  return direction;
}

// The same with a dy that is 0 but for a few elements of each group.
const Case& sparse(const Case& c) {
  return c.derived(0, [&c] {
    Problem problem = c.problem();
    problem.layout[Role::dy].broadcast = {};
    problem.cotangent = Cotangent::random;
    problem.values[Role::dy].clear();
    Inputs inputs = c.inputs();
    const Groups groups(problem.shape, row_of(problem.variant));
    for (std::int64_t q = 0; q < groups.count(); ++q) {
      const Words words = random_words(problem.key, of_place, static_cast<std::uint64_t>(q));
      const std::int64_t kept = std::min<std::int64_t>(groups.size(), 1 + words.w[1] % 16);
      const std::int64_t first = words.w[0] % static_cast<std::uint32_t>(groups.size() - kept + 1);
      std::int64_t position = 0;
      groups.for_each(q, [&](std::int64_t e, const Shape&) {
        const auto i = static_cast<std::size_t>(e);
        const bool inside = position >= first && position < first + kept;
        inputs[Role::dy][i] = inside ? static_cast<float>(drawn(problem, of_dy, i)) : 0.0F;
        ++position;
      });
    }
    return Case(problem, std::move(inputs));
  });
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result = one_call(c, subject);
  if (element_count(c.problem().shape) > 0) result.push_back(call_of(sparse(c).problem(), sparse(c).inputs(), subject));
  return result;
}

class Products {
 public:
  Products(const Case& c, const Case& with_dy, const Subject& subject, const Inputs& outputs, Judgement& judgement)
      : case_(c),
        with_dy_(with_dy),
        demand_(demand_around_derivative(with_dy, subject)),
        claim_(subject.kernel.claim),
        groups_(c.problem().shape, subject.row),
        outputs_(outputs),
        judgement_(judgement) {}

  void judge_x(const Direction& direction, const Tangent& tangent) {
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      Sum sum;
      sum.known = !tangent.kink[static_cast<std::size_t>(q)];
      groups_.for_each(q, [&](std::int64_t e, const Shape&) {
        const auto i = static_cast<std::size_t>(e);
        add_forward(sum, tangent, i);
        add_gradient(sum, Role::dx, i, direction[Role::x][i], 0);
      });
      demand(sum, Role::dx, groups_.size(),
             [&] { return fmt::format("dx, group {} of {}, {} elements", q, groups_.count(), groups_.size()); });
    }
  }

  void judge_parameter(Role role, Role parameter, const Direction& direction, const Tangent& tangent) {
    Sum sum;
    for (std::size_t i = 0; i < tangent.y.size(); ++i) add_forward(sum, tangent, i);
    const auto& old = with_dy_.inputs()[role];
    for (std::size_t channel = 0; channel < direction[parameter].size(); ++channel)
      add_gradient(sum, role, channel, direction[parameter][channel],
                   old.empty() ? 0 : static_cast<double>(old[channel]));
    demand(sum, role, static_cast<std::int64_t>(tangent.y.size()),
           [&] { return fmt::format("{}, all {} channels", name_of(role), direction[parameter].size()); });
  }

 private:
  struct Sum {
    bool known = true;
    double got = 0, want = 0, allowed = 0, moduli = 0;
    std::size_t first = 0;  // an element to say the bound of
  };

  void add_forward(Sum& sum, const Tangent& tangent, std::size_t i) {
    const auto dy = static_cast<double>(with_dy_.inputs()[Role::dy][i]);
    const Exact& y = tangent.y[i];
    sum.known = sum.known && y.finite() && std::isfinite(dy);
    sum.want += dy * y.hi;
    sum.moduli += std::fabs(dy * y.hi);
    sum.allowed += std::fabs(dy) * y.bound;
    sum.first = i;
  }

  void add_gradient(Sum& sum, Role role, std::size_t i, double weight, double old) {
    const double tolerance = demand_.bounds->tolerance[role][i];
    const auto value = static_cast<double>(outputs_[role][i]);
    sum.known = sum.known && tolerance < infinity && demand_.truth->out[role][i].finite();
    sum.got += weight * (value - old);
    sum.moduli += std::fabs(weight) * (std::fabs(value) + std::fabs(old));
    sum.allowed += std::fabs(weight) * (tolerance + demand_.truth->out[role][i].bound);
    if (role != Role::dx) sum.first = i;
  }

  template <typename Where>
  void demand(const Sum& sum, Role role, std::int64_t terms, Where where) {
    if (!sum.known) {
      judgement_.not_judged += terms;
      return;
    }
    judgement_.elements += terms;
    const double allowed = sum.allowed + sum.moduli * static_cast<double>(terms + 8) * 0x1p-50;
    const double error = std::fabs(sum.got - sum.want);
    const double share = error == 0 ? 0 : error / allowed;
    if (share > judgement_.worst_share) {
      judgement_.worst_share = share;
      judgement_.worst_role = role;
    }
    if (error <= allowed || judgement_.violation) return;
    Violation violation;
    violation.at = fmt::format("{}{}", where(), &with_dy_ == &case_ ? "" : ", of a dy that is mostly 0");
    violation.got = fmt::format("<{}, v> = {:.9g}", name_of(role), sum.got);
    violation.want = fmt::format("<dy, J v> = {:.9g} within {:.4g}", sum.want, allowed);
    violation.error =
        fmt::format("{:.4g} of the bound   ({})", share, bound_in_words(with_dy_, claim_, sum.first, role));
    judgement_.violation = std::move(violation);
  }

  const Case& case_;
  const Case& with_dy_;
  const Demand demand_;
  const Claim& claim_;
  const Groups groups_;
  const Inputs& outputs_;
  Judgement& judgement_;
};

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  const Problem& problem = c.problem();
  if (problem.from_output || problem.handed != Handed::nearest || problem.profile == Profile::special ||
      element_count(problem.shape) == 0) {
    judgement.discarded = true;
    return judgement;
  }
  const Direction x = along_x(c);
  for (std::size_t k = 0; k < outcomes.size(); ++k) {
    Products products(c, k == 0 ? c : sparse(c), subject, outcomes[k].outputs, judgement);
    products.judge_x(x, c.tangent_along(0, [&] { return x; }));
    if (problem.gamma) {
      const Direction gamma = along_parameter(c, Role::gamma, of_gamma);
      products.judge_parameter(Role::dgamma, Role::gamma, gamma, c.tangent_along(1, [&] { return gamma; }));
    }
    if (problem.beta) {
      const Direction beta = along_parameter(c, Role::beta, of_beta);
      products.judge_parameter(Role::dbeta, Role::beta, beta, c.tangent_along(2, [&] { return beta; }));
    }
  }
  return judgement;
}

}  // namespace

const Property dot_product{
    "dot_product", "What the forward's definition does along a direction is what the gradients say of it.",
    applies,       plan,
    calls,         judge};

}  // namespace normgate
