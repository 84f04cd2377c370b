// The built-in kernels' gradients against the formulas in double: every row, phase, convention, optional tensor,
// layout, place and cotangent on small shapes. It finds a wrong formula or a wrong address where it arises; how
// accurate the kernels are is the gate's question.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/runner/runner.hpp"

namespace normgate::gradients {

using runner::Call;
using runner::Outcome;

// A value and the sum of the moduli of its terms.
struct Value {
  double value = 0;
  double terms = 0;
  void add(double term) {
    value += term;
    terms += std::fabs(term);
  }
};

class Formulas {
 public:
  Formulas(const Problem& problem, const Inputs& inputs)
      : problem_(problem), inputs_(inputs), row_(row_of(problem.variant)) {
    members_.resize(static_cast<std::size_t>(group_count(problem)));
    const Shape& shape = problem.shape;
    Shape at{};
    for (at[0] = 0; at[0] < shape[0]; ++at[0])
      for (at[1] = 0; at[1] < shape[1]; ++at[1])
        for (at[2] = 0; at[2] < shape[2]; ++at[2])
          for (at[3] = 0; at[3] < shape[3]; ++at[3])
            members_[static_cast<std::size_t>(group_index(problem, at))].push_back(at);
    dx.resize(static_cast<std::size_t>(element_count(shape)));
    const auto channels = static_cast<std::size_t>(element_count(restricted(shape, row_.affine)));
    if (problem.gamma) dgamma.resize(channels);
    if (problem.beta) dbeta.resize(channels);
    if (problem.convention.gradients == Gradients::accumulate) {
      for (std::size_t c = 0; c < dgamma.size(); ++c) dgamma[c].add(static_cast<double>(inputs[Role::dgamma][c]));
      for (std::size_t c = 0; c < dbeta.size(); ++c) dbeta[c].add(static_cast<double>(inputs[Role::dbeta][c]));
    }
    for (const auto& members : members_)
      if (!members.empty()) group(members);
  }

  std::vector<Value> dx, dgamma, dbeta;

 private:
  struct Statistics {
    double mean = 0;
    double rstd = 0;
    double cubic = 0;  // the q of dx = r (g - mean g) - q d sum(g d)/n
  };

  [[nodiscard]] double in(Role role, const Shape& at) const {
    const auto i = dense_index(problem_.shape, axes_of(role, row_), at);
    return static_cast<double>(inputs_[role][static_cast<std::size_t>(i)]);
  }

  [[nodiscard]] Statistics of_variance(double mean, double v) const {
    const double eps = problem_.eps;
    const double root = std::sqrt(v);
    Statistics s{mean, 0, 0};
    switch (problem_.convention.eps) {
      case EpsPlacement::inside:
        s.rstd = 1 / std::sqrt(v + eps);
        s.cubic = std::pow(s.rstd, 3);
        break;
      case EpsPlacement::outside:
        s.rstd = 1 / (root + eps);
        s.cubic = v == 0 ? 0 : s.rstd * s.rstd / root;
        break;
      case EpsPlacement::floor:
        s.rstd = 1 / std::sqrt(v < eps ? eps : v);
        s.cubic = v > eps ? std::pow(s.rstd, 3) : 0;
        break;
    }
    return s;
  }

  [[nodiscard]] Statistics of_rstd(double mean, double r) const {
    Statistics s{mean, r, std::pow(r, 3)};
    if (problem_.convention.eps == EpsPlacement::outside) {
      const double root = 1 / r - problem_.eps;
      s.cubic = root == 0 ? 0 : r * r / root;
    }
    const long double square = static_cast<long double>(r) * static_cast<long double>(r);
    if (problem_.convention.eps == EpsPlacement::floor && square * static_cast<long double>(problem_.eps) >= 1)
      s.cubic = 0;
    return s;
  }

  [[nodiscard]] Statistics statistics(const std::vector<Shape>& members) const {
    const Shape& first = members.front();
    if (problem_.given == Given::running) {
      double weight = 1;
      if (problem_.convention.momentum == MomentumForm::accumulated_weight)
        weight = static_cast<double>(inputs_[Role::running_weight][0]);
      return of_variance(in(Role::running_mean, first) / weight, in(Role::running_var, first) / weight);
    }
    if (problem_.saved || problem_.given == Given::saved) {
      const double mean = row_.centred ? in(Role::mean, first) : 0;
      const double stat = in(Role::stat, first);
      return problem_.convention.saved == SavedStatistic::variance ? of_variance(mean, stat) : of_rstd(mean, stat);
    }
    double mean = 0;
    if (row_.centred) {
      for (const Shape& at : members) mean += in(Role::x, at);
      mean /= static_cast<double>(members.size());
    }
    double squares = 0;
    for (const Shape& at : members) squares += std::pow(in(Role::x, at) - mean, 2);
    return of_variance(mean, over_degrees(squares, members.size()));
  }

  [[nodiscard]] double over_degrees(double sum, std::size_t n) const {
    if (!row_.centred || problem_.convention.normalizing == NormalizingDivisor::n) return sum / static_cast<double>(n);
    if (n == 1 && problem_.convention.single != SingleCount::nan) return 0;
    return sum / static_cast<double>(n - 1);
  }

  void group(const std::vector<Shape>& members) {
    const Statistics s = statistics(members);
    const double offset = problem_.convention.gamma == GammaOffset::plus_one ? 1 : 0;
    const auto g = [&](const Shape& at) {
      return in(Role::dy, at) * (problem_.gamma ? in(Role::gamma, at) + offset : 1);
    };
    Value sum;
    Value products;
    for (const Shape& at : members) {
      const double d = in(Role::x, at) - s.mean;
      const auto channel = static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
      if (problem_.gamma) dgamma[channel].add(in(Role::dy, at) * d * s.rstd);
      if (problem_.beta) dbeta[channel].add(in(Role::dy, at));
      sum.add(g(at));
      products.add(g(at) * d);
    }
    const auto n = static_cast<double>(members.size());
    const AxisSet all{Axis::n, Axis::g, Axis::k, Axis::s};
    for (const Shape& at : members) {
      Value& value = dx[static_cast<std::size_t>(dense_index(problem_.shape, all, at))];
      value.add(s.rstd * g(at));
      if (problem_.phase == Phase::backward_inference) continue;
      if (row_.centred) value.add(-s.rstd * sum.value / n);
      const double d = in(Role::x, at) - s.mean;
      value.add(-s.cubic * d * over_degrees(products.value, members.size()));
      // What cancels inside the means counts too.
      if (row_.centred) value.terms += s.rstd * sum.terms / n;
      value.terms += std::fabs(s.cubic * d) * over_degrees(products.terms, members.size());
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const VariantRow& row_;
  std::vector<std::vector<Shape>> members_;
};

inline Problem plain_problem(const runner::KernelInfo& kernel, Phase phase, const Convention& convention,
                             const Shape& shape) {
  Problem problem;
  problem.phase = phase;
  problem.variant = *kernel.variant;
  problem.shape = shape;
  problem.convention = convention;
  problem.eps = 0.25;
  if (phase == Phase::backward_inference)
    problem.given = row_of(problem.variant).running.empty() ? Given::saved : Given::running;
  return problem;
}

// Calls of all rows; `shapes` with all phases, conventions, and a choice of the other fields that runs through all of
// them.
inline std::vector<Call> calls_of(const std::vector<runner::KernelInfo>& kernels, const std::vector<Shape>& shapes) {
  using Order = std::array<Axis, axis_count>;
  const Order channels_last{Axis::n, Axis::s, Axis::g, Axis::k};
  const Order backwards{Axis::s, Axis::k, Axis::g, Axis::n};
  const std::vector<Layout> layouts{Layout{},
                                    {channels_last, 1, 0, {}},
                                    {Layout{}.order, 1, 3, {}},
                                    {Layout{}.order, 2, 0, {}},
                                    {backwards, 1, 0, {}},
                                    {channels_last, 3, 2, {}}};
  std::vector<Call> calls;
  std::uint64_t turn = 0;
  const auto add = [&](const runner::KernelInfo& kernel, const Problem& problem) {
    ASSERT_EQ(check(problem), "") << print(problem);
    calls.push_back({kernel.index, problem, make_inputs(problem), runner::Filling::nan});
  };
  for (const runner::KernelInfo& kernel : kernels)
    for (const Phase phase : {Phase::backward_training, Phase::backward_inference})
      for (const Convention& convention : kernel.conventions)
        for (const Shape& shape : shapes)
          for (std::uint64_t option = 0; option < 16; ++option) {
            Problem p = plain_problem(kernel, phase, convention, shape);
            p.key = ++turn;
            p.gamma = (option & 1U) == 0;
            p.beta = (option & 2U) == 0;
            const bool handed = (option & 4U) != 0;
            if (phase == Phase::backward_training) {
              p.saved = handed;
              if (handed && turn % 3 == 0) p.handed = Handed::shifted;
            } else if (handed) {
              p.given = Given::saved;
            }
            if (turn % 5 == 1) p.eps = 4;  // above the variance
            p.in_place = (option & 8U) != 0;
            if (option != 0) {  // every convention and shape once as it stands
              p.layout[Role::x] = layouts[turn % 6];
              p.layout[Role::dy] = layouts[turn / 6 % 7 < 6 ? turn / 6 % 7 : turn % 6];
              p.layout[Role::dx] = p.in_place ? p.layout[Role::dy] : layouts[turn / 42 % 6];
              const std::int64_t step = 1 + static_cast<std::int64_t>(turn % 2);
              if (p.gamma) p.layout[Role::gamma].step = p.layout[Role::dgamma].step = step;
              if (p.beta) p.layout[Role::dbeta].step = step;
            }
            if (!p.in_place && turn % 4 == 1) {
              p.cotangent = turn % 8 == 1 ? Cotangent::ones : Cotangent::pooled;
              p.layout[Role::dy].broadcast =
                  turn % 8 == 1 ? AxisSet{Axis::n, Axis::g, Axis::k, Axis::s} : AxisSet{Axis::s};
            }
            p.misalign = static_cast<std::int32_t>(turn % 3);
            p.skew = static_cast<std::int32_t>(turn / 3 % 2);
            add(kernel, p);
          }
  return calls;
}

// Each element within `factor` units 2^-24 of its terms, times a depth that grows with the group.
inline void expect_formulas(const Call& call, const Outcome& outcome, double units, double units_per_term) {
  const Problem& problem = call.problem;
  std::string findings = outcome.text;
  for (const auto& finding : outcome.findings) findings += "\n" + finding.sentence;
  ASSERT_EQ(outcome.status, runner::Status::ok) << print(problem) << "\n" << findings;
  ASSERT_TRUE(outcome.findings.empty()) << print(problem) << "\n" << findings;
  const Formulas formulas(problem, call.inputs);
  const auto compare = [&](Role role, const std::vector<Value>& wanted, double terms) {
    const std::vector<float>& got = outcome.outputs[role];
    ASSERT_EQ(got.size(), wanted.size()) << print(problem);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double value = static_cast<double>(got[i]);
      if (std::isnan(wanted[i].value) && std::isnan(value)) continue;
      const double tolerance = 0x1p-24 * (units + units_per_term * terms) * wanted[i].terms + 0x1p-126;
      ASSERT_LE(std::fabs(value - wanted[i].value), tolerance)
          << print(problem) << "\n"
          << name_of(role) << "[" << i << "] is " << value << ", by the formulas " << wanted[i].value;
    }
  };
  const auto size = static_cast<double>(group_size(problem));
  compare(Role::dx, formulas.dx, size);
  const auto elements = static_cast<double>(element_count(problem.shape));
  compare(Role::dgamma, formulas.dgamma, elements);
  compare(Role::dbeta, formulas.dbeta, elements);
}

// What loops and buffers get wrong where there is nothing: a gradient without terms is 0, or what was there.
inline void expect_empty_sums(const runner::Plugin& plugin) {
  runner::Worker worker(plugin, plugin.targets[0], 1, {});
  std::vector<Call> calls;
  for (const runner::KernelInfo& kernel : plugin.kernels)
    for (const Phase phase : {Phase::backward_training, Phase::backward_inference})
      for (const Gradients gradients : {Gradients::overwrite, Gradients::accumulate})
        for (const Shape& shape : {Shape{0, 2, 3, 1}, Shape{2, 2, 3, 0}, Shape{2, 0, 3, 2}, Shape{0, 1, 1, 0}}) {
          Convention convention;
          convention.gradients = gradients;
          const Problem problem = plain_problem(kernel, phase, convention, shape);
          ASSERT_EQ(check(problem), "");
          calls.push_back({kernel.index, problem, make_inputs(problem), runner::Filling::nan});
        }
  const std::vector<Outcome> outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ASSERT_EQ(outcomes[i].status, runner::Status::ok) << print(calls[i].problem) << "\n" << outcomes[i].text;
    for (const Role role : {Role::dgamma, Role::dbeta}) {
      const std::vector<float>& got = outcomes[i].outputs[role];
      const bool accumulates = calls[i].problem.convention.gradients == Gradients::accumulate;
      const std::vector<float> wanted = accumulates ? calls[i].inputs[role] : std::vector<float>(got.size(), 0.0F);
      EXPECT_EQ(got, wanted) << print(calls[i].problem);
      EXPECT_EQ(got.size(), static_cast<std::size_t>(calls[i].problem.shape[1] * calls[i].problem.shape[2]));
    }
  }
}

}  // namespace normgate::gradients
