// Whether the oneDNN plugin hands the right tensors to the right backward primitive: every target against the closed
// form in double, on data that leave no rounding in any order of summation or association. To add a shape or a layout:
// a line in `cases`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "kernels/runner/runner.hpp"

namespace normgate {
namespace {

using runner::Call;
using runner::Outcome;
using runner::Status;

const runner::Plugin& plugin() {
  static const runner::Plugin result = [] {
    auto probed = runner::probe(ONEDNN_PLUGIN, {});
    if (const auto* error = std::get_if<runner::HarnessError>(&probed)) throw std::runtime_error(error->sentence);
    return std::get<runner::Plugin>(std::move(probed));
  }();
  return result;
}

std::int32_t kernel_named(const std::string& name) {
  for (const runner::KernelInfo& kernel : plugin().kernels)
    if (kernel.name == name) return kernel.index;
  throw std::runtime_error("no kernel " + name);
}

// The layouts of x and of the gradients; dy and dx share one in oneDNN.
struct Layouts {
  std::string text;
  Layout data;
  Layout gradient;
};

std::vector<Layouts> layouts_for(Variant variant, bool mixed) {
  const Layout plain{};
  Layout last;
  last.order = {Axis::n, Axis::s, Axis::g, Axis::k};
  std::vector<Layouts> result{{"plain", plain, plain}, {"channels last", last, last}};
  if (variant != Variant::batch_norm || !mixed) return result;
  Layout padded = plain;
  padded.pad = 3;
  result.push_back({"data plain, gradients channels last", plain, last});
  result.push_back({"data channels last, gradients plain", last, plain});
  result.push_back({"gaps in the gradients", plain, padded});
  return result;
}

Problem make_problem(Variant variant, Phase phase, const Shape& shape) {
  Problem problem;
  problem.variant = variant;
  problem.phase = phase;
  problem.shape = shape;
  problem.eps = 0.25;
  problem.convention.saved = SavedStatistic::variance;
  problem.saved = phase == Phase::backward_training;
  if (phase == Phase::backward_inference)
    problem.given = variant == Variant::batch_norm ? Given::running : Given::saved;
  return problem;
}

std::pair<Role, Role> statistics_of(const Problem& problem) {
  return problem.given == Given::running ? std::pair{Role::running_mean, Role::running_var}
                                         : std::pair{Role::mean, Role::stat};
}

struct Element {
  std::size_t index, group, channel;
};

std::vector<std::vector<Element>> groups_of(const Problem& problem) {
  const AxisSet all{Axis::n, Axis::g, Axis::k, Axis::s};
  const VariantRow& row = row_of(problem.variant);
  std::vector<std::vector<Element>> groups(static_cast<std::size_t>(group_count(problem)));
  Shape at{};
  for (at[0] = 0; at[0] < problem.shape[0]; ++at[0])
    for (at[1] = 0; at[1] < problem.shape[1]; ++at[1])
      for (at[2] = 0; at[2] < problem.shape[2]; ++at[2])
        for (at[3] = 0; at[3] < problem.shape[3]; ++at[3]) {
          const auto group = static_cast<std::size_t>(group_index(problem, at));
          groups[group].push_back({static_cast<std::size_t>(dense_index(problem.shape, all, at)), group,
                                   static_cast<std::size_t>(dense_index(problem.shape, row.affine, at))});
        }
  return groups;
}

// Integers x - mean and dy, gamma a power of two, variance + eps a power of four; and for every group of n elements
// n divides sum(g) and sum(g*(x-mean)), so that the divisions by n are exact too. The statistics are handed, and are
// not those of x: a primitive that ignored them would be far off.
Inputs make_exact_inputs(const Problem& problem, const std::vector<std::vector<Element>>& groups) {
  Inputs inputs;
  const auto elements = static_cast<std::size_t>(element_count(problem.shape));
  const VariantRow& row = row_of(problem.variant);
  const auto channels = static_cast<std::size_t>(element_count(restricted(problem.shape, row.affine)));
  const auto [mean_role, variance_role] = statistics_of(problem);
  inputs[Role::x].resize(elements);
  inputs[Role::dy].resize(elements);
  inputs[mean_role].resize(groups.size());
  inputs[variance_role].resize(groups.size());
  std::vector<float> gamma(channels, 1);
  // The last two elements of a row make its sums multiples of n: their gamma is 1.
  const std::size_t powers = row.affine == row.reduced ? std::max<std::size_t>(channels, 2) - 2 : channels;
  constexpr float gammas[] = {2, -1, 0.5F, 4, -2};
  for (std::size_t c = 0; c < powers; ++c) gamma[c] = gammas[c % 5];
  if (problem.gamma)
    inputs[Role::gamma] = gamma;
  else
    gamma.assign(channels, 1);
  for (std::size_t q = 0; q < groups.size(); ++q) {
    const auto mean = static_cast<float>(static_cast<int>(q * 5 % 17) - 8);
    inputs[mean_role][q] = mean;
    inputs[variance_role][q] = std::ldexp(1.0F, 2 * static_cast<int>(q % 3)) - 0.25F;
    const auto n = static_cast<float>(groups[q].size());
    float sum = 0;
    float sum_times_deviation = 0;
    for (std::size_t i = 0; i < groups[q].size(); ++i) {
      const Element& element = groups[q][i];
      auto deviation = static_cast<float>((i * 7 + q * 3) % 8) - 3;
      auto dy = static_cast<float>((i * 5 + q) % 11 * 2) - 8;
      const float factor = row.affine == row.reduced ? gamma[element.channel] : 1;
      if (groups[q].size() > 1 && i + 2 >= groups[q].size()) {
        deviation = i + 1 == groups[q].size() ? 0 : 1;
        if (deviation == 1) dy = n * (static_cast<float>(q % 3) - 1) - sum_times_deviation;
        if (deviation == 0) dy = n * (static_cast<float>(q % 2) + 1) - sum;
      }
      inputs[Role::x][element.index] = mean + deviation;
      inputs[Role::dy][element.index] = dy;
      sum += dy * factor;
      sum_times_deviation += dy * factor * deviation;
    }
  }
  return inputs;
}

Inputs closed_form(const Problem& problem, const Inputs& inputs, const std::vector<std::vector<Element>>& groups) {
  const auto channels =
      static_cast<std::size_t>(element_count(restricted(problem.shape, row_of(problem.variant).affine)));
  const auto [mean_role, variance_role] = statistics_of(problem);
  std::vector<double> dgamma(channels);
  std::vector<double> dbeta(channels);
  Inputs outputs;
  outputs[Role::dx].resize(inputs[Role::x].size());
  for (std::size_t q = 0; q < groups.size(); ++q) {
    const auto n = static_cast<double>(groups[q].size());
    const double mean = inputs[mean_role][q];
    const double r = 1 / std::sqrt(inputs[variance_role][q] + problem.eps);
    double sum = 0;
    double sum_times_normalized = 0;
    for (const Element& element : groups[q]) {
      const double dy = inputs[Role::dy][element.index];
      const double normalized = (inputs[Role::x][element.index] - mean) * r;
      const double g = dy * (problem.gamma ? inputs[Role::gamma][element.channel] : 1);
      dgamma[element.channel] += dy * normalized;
      dbeta[element.channel] += dy;
      sum += g;
      sum_times_normalized += g * normalized;
    }
    for (const Element& element : groups[q]) {
      const double normalized = (inputs[Role::x][element.index] - mean) * r;
      double dx = inputs[Role::dy][element.index] * (problem.gamma ? inputs[Role::gamma][element.channel] : 1.0);
      if (problem.phase == Phase::backward_training) dx -= sum / n + normalized * sum_times_normalized / n;
      outputs[Role::dx][element.index] = static_cast<float>(dx * r);
    }
  }
  if (problem.gamma) outputs[Role::dgamma].assign(dgamma.begin(), dgamma.end());
  if (problem.beta) outputs[Role::dbeta].assign(dbeta.begin(), dbeta.end());
  return outputs;
}

std::vector<Problem> cases(Variant variant, bool mixed) {
  const std::vector<Shape> shapes =
      variant == Variant::batch_norm
          ? std::vector<Shape>{{2, 1, 5, 7}, {4, 16, 1, 9}, {2, 4, 8, 3}, {3, 1, 16, 1}, {5, 1, 33, 1}, {1, 1, 16, 1}}
          : std::vector<Shape>{{4, 1, 6, 1}, {3, 1, 17, 1}, {2, 4, 8, 3}, {5, 1, 64, 2}, {1, 1, 1, 1}, {2, 1, 300, 1}};
  std::vector<Problem> result;
  for (const Phase phase : {Phase::backward_training, Phase::backward_inference})
    for (const Shape& shape : shapes)
      for (const Layouts& layouts : layouts_for(variant, mixed))
        for (int affine = 0; affine < 4; ++affine)
          for (const bool in_place : {false, true}) {
            Problem problem = make_problem(variant, phase, shape);
            problem.gamma = (affine & 1) != 0;
            problem.beta = (affine & 2) != 0;
            problem.in_place = in_place;
            problem.layout[Role::x] = layouts.data;
            problem.layout[Role::dy] = problem.layout[Role::dx] = layouts.gradient;
            result.push_back(problem);
          }
  return result;
}

void expect_exact(const std::string& kernel, bool mixed = false) {
  const Variant variant = *plugin().kernels.at(static_cast<std::size_t>(kernel_named(kernel))).variant;
  const std::vector<Problem> problems = cases(variant, mixed);
  std::vector<Call> calls;
  for (const Problem& problem : problems) {
    ASSERT_EQ(check(problem), "") << print(problem);
    Call call;
    call.kernel = kernel_named(kernel);
    call.problem = problem;
    call.inputs = make_exact_inputs(problem, groups_of(problem));
    calls.push_back(call);
  }
  for (const runner::TargetInfo& target : plugin().targets) {
    if (!target.unavailable.empty()) continue;
    runner::Worker worker(plugin(), target, 1, {});
    const std::vector<Outcome> outcomes = worker.run(calls);
    ASSERT_EQ(outcomes.size(), calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::string what = target.name + ": " + print(problems[i]);
      ASSERT_EQ(outcomes[i].status, Status::ok) << what << "\n" << outcomes[i].text;
      for (const runner::Finding& finding : outcomes[i].findings) ADD_FAILURE() << what << "\n" << finding.sentence;
      const Inputs want = closed_form(problems[i], calls[i].inputs, groups_of(problems[i]));
      for (const Role role : {Role::dx, Role::dgamma, Role::dbeta})
        EXPECT_EQ(outcomes[i].outputs[role], want[role]) << what << "  " << name_of(role);
    }
  }
}

TEST(OneDnnBackward, BatchNormIsExactOnExactData) { expect_exact("onednn/batch_norm_backward"); }
TEST(OneDnnBackward, BatchNormIsExactWithGradientsInAnotherFormat) {
  expect_exact("onednn/batch_norm_backward_mixed", true);
}
TEST(OneDnnBackward, LayerNormIsExactOnExactData) { expect_exact("onednn/layer_norm_backward"); }

std::string refusal(const std::string& kernel, const Problem& problem) {
  runner::Worker worker(plugin(), plugin().targets.at(0), 1, {});
  Call call;
  call.kernel = kernel_named(kernel);
  call.problem = problem;
  call.inputs = make_inputs(problem);
  const Outcome outcome = worker.run({&call, 1}).at(0);
  return outcome.status == Status::unsupported ? outcome.text : "not refused";
}

TEST(OneDnnBackward, RefusesWhatOneDnnCannotDoWithItsReason) {
  for (const Variant variant : {Variant::batch_norm, Variant::layer_norm}) {
    const std::string kernel = "onednn/" + std::string(row_of(variant).name) + "_backward";
    Problem without = make_problem(variant, Phase::backward_training, {4, 2, 3, 5});
    without.saved = false;
    EXPECT_EQ(refusal(kernel, without), "oneDNN's backward needs mean and variance: it does not compute them again");
    Problem apart = make_problem(variant, Phase::backward_training, {4, 2, 3, 5});
    apart.layout[Role::dy].order = {Axis::n, Axis::s, Axis::g, Axis::k};
    EXPECT_EQ(refusal(kernel, apart),
              "oneDNN 2 describes their gradients by one memory descriptor: dy and dx need one layout");
    apart.layout[Role::dx] = apart.layout[Role::dy];
    EXPECT_EQ(refusal(kernel, apart), "data and gradients in different formats are another kernel's claim");
  }
}

}  // namespace
}  // namespace normgate
