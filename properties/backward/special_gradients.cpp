// NaN and infinities go where the gradients' definition sends them and nowhere else (MATH §6). What an output depends
// on:
//   dbeta     dy of the channel, and what it is added to; not x, not the statistics
//   dgamma    dy and x̂ of the channel; in training x̂ depends on x of the whole group, so that one NaN row of x reaches
//             dgamma of each of its channels; given statistics and x of the channel in inference; y, beta and gamma of
//             the channel where x̂ is taken from y
//   dx        in training everything of its group: x (or y), dy, gamma; its own dy, gamma and the given deviation in
//             inference
// Per element, by the inputs that it depends on:
//   (a) none is NaN or infinite: the ordinary bound holds, strictly, for every kernel: nothing leaks;
//   (b) one is NaN: the output is NaN (0 * NaN = NaN);
//   (c) one is infinite, none NaN: the definition's value in extended reals, or NaN; a finite number only where the
//       definition gives that number; exactly the definition's value if the kernel promises ieee_specials.
// An infinite x whose 1/D is 0 leaves dgamma a sum over the other groups, for which there is no bound here: a finite
// number in the place of a finite one is then not judged. Handed statistics are NaN or infinite only where x is. A
// single value under n-1 has constant statistics where the convention states its variance: whether x - mean of an
// infinite x is then 0 or NaN is open, and not judged. Nor is what a NaN or an infinity in dy or gamma makes of the
// last term of dx where the convention says that the term is 0 (up to a floor, and without a variance where eps stands
// outside the root): 0 times it, or nothing at all. Through mean(g) a NaN reaches the group all the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/dependency.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/bounds/rounding.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_backward(subject.phase) && is_new_to_backward(subject); }

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "special_gradients");
  for (std::int64_t round = 0; round < planner.by_effort(2, 3, 8); ++round)
    for (const std::int64_t length : planner.lengths(4200, 6)) {
      // Lengths above make no new dependencies; they are met once.
      if (effort == Effort::quick && round > 0 && length > 130) continue;
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 1000 ? 2 : 2 + (length + round) % 4;
      recipe.profile = Profile::special;
      if (length % 3 != 0) recipe.cotangent = Cotangent::random;
      if (length % 4 != 0) recipe.gamma = recipe.beta = 1;
      recipe.step = 2;
      planner.add(recipe);
    }
  planner.cover([](Profile profile) { return profile == Profile::special; });
  return planner.take();
}

class SpecialJudge {
 public:
  SpecialJudge(const Case& c, const Subject& subject, const Inputs& outputs)
      : case_(c),
        subject_(subject),
        outputs_(outputs),
        demand_(demand_of(c, subject)),
        groups_(c.problem().shape, subject.row) {}

  Judgement judge() {
    const Problem& problem = case_.problem();
    const Inputs& inputs = case_.inputs();
    const bool training = is_training(problem.phase);
    const auto channels = static_cast<std::size_t>(element_count(restricted(problem.shape, subject_.row.affine)));
    std::vector<Dependency> of_gamma(channels), of_beta(channels);
    const bool divides_by_0 = training && subject_.row.centred && groups_.size() == 1 &&
                              problem.convention.normalizing == NormalizingDivisor::n_minus_1 &&
                              problem.convention.single != SingleCount::nan;
    std::vector<bool> open(channels);
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      Dependency normalized = given(q);  // what x̂ depends on, besides its own element
      Dependency whole = given_deviation(q);
      const bool from_y = problem.from_output;
      groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
        const auto index = static_cast<std::size_t>(i);
        if (!training) return;
        if (!from_y) normalized.add(inputs[Role::x][index]);
        if (from_y) whole.add(own_output(index, at));
        whole.add(inputs[Role::dy][index]);
        if (problem.gamma) whole.add(inputs[Role::gamma][channel_of(at)]);
      });
      if (training) whole.add(normalized);
      const bool is_open = divides_by_0 && normalized.any();
      const bool term_is_open = training && !normalized.any() && lacks_the_last_term(q);
      groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
        const auto index = static_cast<std::size_t>(i);
        const std::size_t channel = channel_of(at);
        Dependency depends = whole;
        if (!training) {
          depends.add(inputs[Role::dy][index]);
          if (problem.gamma) depends.add(inputs[Role::gamma][channel]);
        }
        if (is_open || (term_is_open && depends.any() && !(depends.nan && subject_.row.centred))) {
          ++judgement_.not_judged;
        } else {
          demand(Role::dx, index, depends);
        }
        open[channel] = open[channel] || is_open;
        of_gamma[channel].add(inputs[Role::dy][index]);
        if (from_y) {
          of_gamma[channel].add(own_output(index, at));
        } else {
          of_gamma[channel].add(normalized);
          of_gamma[channel].add(inputs[Role::x][index]);
        }
        of_beta[channel].add(inputs[Role::dy][index]);
      });
    }
    for (std::size_t channel = 0; channel < channels; ++channel) {
      if (problem.gamma && !open[channel]) demand(Role::dgamma, channel, of_gamma[channel]);
      if (problem.beta) demand(Role::dbeta, channel, of_beta[channel]);
    }
    return std::move(judgement_);
  }

 private:
  [[nodiscard]] std::size_t channel_of(const Shape& at) const {
    return static_cast<std::size_t>(dense_index(case_.problem().shape, subject_.row.affine, at));
  }

  [[nodiscard]] Dependency own_output(std::size_t index, const Shape& at) const {
    Dependency result;
    result.add(case_.inputs()[Role::y][index]);
    if (case_.problem().gamma) result.add(case_.inputs()[Role::gamma][channel_of(at)]);
    if (case_.problem().beta) result.add(case_.inputs()[Role::beta][channel_of(at)]);
    return result;
  }

  // Whether the convention makes the last term of a group's dx 0; groups that rounding might move there count as such.
  [[nodiscard]] bool lacks_the_last_term(std::int64_t q) const {
    const Problem& problem = case_.problem();
    const auto group = static_cast<std::size_t>(q);
    double variance = demand_.truth->groups[group].variance.hi;
    if (problem.saved) {
      const auto stat = static_cast<double>(case_.inputs()[Role::stat][group]);
      const bool outside = problem.convention.eps == EpsPlacement::outside;
      const double deviation = 1 / stat - (outside ? problem.eps : 0);
      variance = problem.convention.saved == SavedStatistic::variance ? stat : deviation * deviation;
    }
    constexpr double slack = 0x1p-16;
    switch (problem.convention.eps) {
      case EpsPlacement::inside:
        break;
      case EpsPlacement::outside:
        return !(std::sqrt(variance) > slack * problem.eps);
      case EpsPlacement::floor:
        return !(variance > (1 + slack) * problem.eps);
    }
    return false;
  }

  // The statistics that inference is given.
  [[nodiscard]] Dependency given_deviation(std::int64_t q) const {
    const Problem& problem = case_.problem();
    const Inputs& inputs = case_.inputs();
    Dependency result;
    if (problem.given == Given::saved) {
      result.add(inputs[Role::stat][static_cast<std::size_t>(q)]);
    } else if (problem.given == Given::running) {
      const auto channel =
          static_cast<std::size_t>(dense_index(problem.shape, subject_.row.running, groups_.origin(q)));
      result.add(inputs[Role::running_var][channel]);
      if (!inputs[Role::running_weight].empty()) result.add(inputs[Role::running_weight][0]);
    }
    return result;
  }
  [[nodiscard]] Dependency given(std::int64_t q) const {
    const Problem& problem = case_.problem();
    const Inputs& inputs = case_.inputs();
    Dependency result = given_deviation(q);
    if (!subject_.row.centred) return result;
    if (problem.given == Given::saved) {
      result.add(inputs[Role::mean][static_cast<std::size_t>(q)]);
    } else if (problem.given == Given::running) {
      const auto channel =
          static_cast<std::size_t>(dense_index(problem.shape, subject_.row.running, groups_.origin(q)));
      result.add(inputs[Role::running_mean][channel]);
    }
    return result;
  }

  void demand(Role role, std::size_t i, const Dependency& depends) {
    const Exact& truth = demand_.truth->out[role][i];
    const double tolerance = demand_.bounds->tolerance[role][i];
    const auto got = static_cast<double>(outputs_[role][i]);
    const bool promised = subject_.kernel.claim.ieee_specials;
    std::string wrong;
    if (depends.nan) {
      if (!std::isnan(got)) wrong = "a NaN is among the inputs that it depends on";
    } else if (depends.infinite) {
      if (truth.finite() && truth.hi != 0 && tolerance == infinity && std::isfinite(got)) {
        ++judgement_.not_judged;
        return;
      }
      const bool is_value = got == truth.hi || (std::isnan(got) && std::isnan(truth.hi)) ||
                            (tolerance < infinity && distance(got, truth) <= tolerance + truth.bound);
      if (!is_value && (promised || !std::isnan(got)))
        wrong = promised ? "an infinity is among its inputs; ieee_specials promises the definition's value"
                         : "an infinity is among its inputs; the definition's value or NaN is right";
    } else {
      if (tolerance == infinity) {
        ++judgement_.not_judged;
        return;
      }
      const double error = distance(got, truth);
      const double share = error == 0 ? 0 : error / tolerance;
      if (share > judgement_.worst_share) {
        judgement_.worst_share = share;
        judgement_.worst_role = role;
      }
      if (error > tolerance + truth.bound)
        wrong = fmt::format("{:.4g} of the bound; no input that it depends on is NaN or infinite", share);
    }
    ++judgement_.elements;
    if (wrong.empty() || judgement_.violation) return;
    Violation violation;
    violation.at = place(case_.problem(), role, i, outputs_[role]);
    violation.got = both_ways(got);
    violation.want = both_ways(truth.hi);
    violation.error = wrong;
    judgement_.violation = std::move(violation);
  }

  const Case& case_;
  const Subject& subject_;
  const Inputs& outputs_;
  Demand demand_;
  Groups groups_;
  Judgement judgement_;
};

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  return SpecialJudge(c, subject, outcomes[0].outputs).judge();
}

}  // namespace

const Property special_gradients{
    "special_gradients",
    "NaN and infinities reach exactly the gradients that depend on them, as the definition says.",
    applies,
    plan,
    one_call,
    judge};

}  // namespace normgate
