// The backward properties judge a kernel that is perfect (the truth, rounded once) as right in every small problem of
// their plans, and kernels with one mistake as wrong in at least one. No kernel runs here: outcomes are made from the
// truth, so what is examined is the properties' own arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::int64_t most_elements = 400;
constexpr std::size_t most_problems = 24;

runner::KernelInfo kernel_of(Variant variant, SavedUse use) {
  runner::KernelInfo kernel;
  kernel.name = "test/perfect";
  kernel.variant = variant;
  kernel.phases = {Phase::backward_training, Phase::backward_inference};
  std::uint64_t roles = 0;
  for (const Role role : {Role::gamma, Role::beta, Role::dgamma, Role::dbeta, Role::mean, Role::stat,
                          Role::running_mean, Role::running_var, Role::running_weight})
    roles |= std::uint64_t{1} << index_of(role);
  if (use == SavedUse::from_output) {
    roles &= ~(std::uint64_t{1} << index_of(Role::mean));
    kernel.roles[static_cast<std::size_t>(Phase::backward_training)].required = std::uint64_t{1}
                                                                                << index_of(Role::stat);
  }
  for (const Phase phase : kernel.phases) kernel.roles[static_cast<std::size_t>(phase)].supported = roles;
  kernel.conventions = {Convention{}};
  Convention accumulate;
  accumulate.gradients = Gradients::accumulate;
  kernel.conventions.push_back(accumulate);
  Convention sample;
  sample.normalizing = NormalizingDivisor::n_minus_1;
  kernel.conventions.push_back(sample);
  for (const EpsPlacement eps : {EpsPlacement::outside, EpsPlacement::floor}) {
    Convention other;
    other.eps = eps;
    kernel.conventions.push_back(other);
  }
  kernel.claim.saved_use = use;
  kernel.claim.row_independent = kernel.claim.batch_invariant = kernel.claim.scale_covariant = true;
  kernel.claim.layout_invariant = kernel.claim.ieee_specials = true;
  kernel.channels_last = kernel.padded = kernel.strided = kernel.mixed = kernel.gradient_in_place = true;
  return kernel;
}

// A mistake changes outputs; it may look at the call.
using Mistake = std::function<void(const runner::Call&, Inputs& outputs)>;

class MadeBench final : public Bench {
 public:
  MadeBench(const runner::KernelInfo& kernel, Mistake mistake) : kernel_(kernel), mistake_(std::move(mistake)) {}
  [[nodiscard]] std::vector<runner::Outcome> run(std::span<const runner::Call> calls) override {
    std::vector<runner::Outcome> result;
    for (const runner::Call& call : calls) {
      const SavedUse use = call.problem.saved ? kernel_.claim.saved_use : SavedUse::recomputes;
      // Right also where the gradient is 0, which the fast tier encloses in numbers that do not scale.
      const Truth truth = definition_backward(call.problem, call.inputs, use);
      runner::Outcome outcome;
      for (const Role role : gradient_roles)
        for (const Exact& value : truth.out[role])
          // Rounding twice is within the bounds, which allow for the last rounding of values in between.
          outcome.outputs[role].push_back(static_cast<float>(value.hi));
      if (mistake_) mistake_(call, outcome.outputs);
      result.push_back(std::move(outcome));
    }
    return result;
  }
  [[nodiscard]] const runner::KernelInfo& kernel() const override { return kernel_; }

 private:
  const runner::KernelInfo& kernel_;
  Mistake mistake_;
};

std::vector<const Property*> backward_properties() {
  return {&gradients,
          &finite_differences_of_the_forward,
          &gradient_identities,
          &cotangent_linearity,
          &training_and_inference,
          &split_rows,
          &exact_gradients,
          &single_value,
          &special_gradients};
}

struct Tried {
  std::int64_t judged = 0;
  std::int64_t elements = 0;
  std::optional<Violation> violation;
  std::string problem;
};

Tried try_property(const Property& property, const Subject& subject, const Mistake& mistake, std::int64_t at_most) {
  Tried result;
  MadeBench bench(subject.kernel, mistake);
  std::size_t tried = 0;
  const auto plan = property.plan(subject, Effort::quick, 1);
  std::vector<Problem> small;
  for (const Problem& problem : plan)
    if (element_count(problem.shape) <= at_most) small.push_back(problem);
  const std::size_t step = std::max<std::size_t>(1, small.size() / most_problems);
  for (std::size_t i = 0; i < small.size() && tried < most_problems; i += step) {
    const Case c(small[i], property.wanted);
    const auto calls = property.calls(c, subject);
    const Judgement judgement = property.judge(c, subject, bench.run(calls), bench);
    ++tried;
    result.elements += judgement.elements;
    if (!judgement.discarded) ++result.judged;
    if (judgement.violation && !result.violation) {
      result.violation = judgement.violation;
      result.problem = print(small[i]);
    }
  }
  return result;
}

class PerfectKernels : public testing::TestWithParam<std::tuple<Variant, SavedUse>> {};

TEST_P(PerfectKernels, AreJudgedAsRight) {
  const auto kernel = kernel_of(std::get<0>(GetParam()), std::get<1>(GetParam()));
  for (const Phase phase : kernel.phases)
    for (const Convention& convention : kernel.conventions) {
      // What the use of handed statistics changes is in training.
      if (phase == Phase::backward_inference && std::get<1>(GetParam()) != SavedUse::short_form) continue;
      const Subject subject{row_of(*kernel.variant), phase, kernel, convention};
      for (const Property* property : backward_properties()) {
        if (!property->applies(subject)) continue;
        const std::int64_t at_most = property == &finite_differences_of_the_forward ? 40 : most_elements;
        const Tried tried = try_property(*property, subject, {}, at_most);
        EXPECT_FALSE(tried.violation.has_value())
            << property->name << " " << tried.problem << "\n at " << tried.violation->at << " got "
            << tried.violation->got << " want " << tried.violation->want << " " << tried.violation->error;
        EXPECT_GT(tried.judged, 0) << property->name << " " << name_of(phase) << " " << print(convention);
        EXPECT_GT(tried.elements, 0) << property->name << " " << name_of(phase) << " " << print(convention);
      }
    }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Variant, SavedUse>>& info) {
  constexpr std::array names{"undeclared", "short", "textbook", "recomputes", "from_output"};
  return std::string(row_of(std::get<0>(info.param)).name) + "_" +
         names[static_cast<std::size_t>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(Rows, PerfectKernels,
                         testing::Combine(testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                                          Variant::instance_norm, Variant::rms_norm),
                                          testing::Values(SavedUse::undeclared, SavedUse::short_form,
                                                          SavedUse::textbook, SavedUse::recomputes,
                                                          SavedUse::from_output)),
                         name_of_case);

// One mistake each, and the properties that must see it in layer_norm's training (inference where it says so).
struct WrongKernel {
  std::string_view name;
  const Property* property;
  Phase phase;
  Mistake mistake;
};

std::vector<WrongKernel> wrong_kernels() {
  const auto scale_dx = [](float factor) {
    return [factor](const runner::Call&, Inputs& outputs) {
      for (float& value : outputs[Role::dx]) value *= factor;
    };
  };
  // r·g in the place of dx.
  const auto inference_formula = [](const runner::Call& call, Inputs& outputs) {
    if (!is_training(call.problem.phase)) return;
    Problem problem = call.problem;
    problem.phase = Phase::backward_inference;
    problem.given = Given::saved;
    problem.saved = false;
    problem.handed = Handed::nearest;
    Inputs inputs = call.inputs;
    if (inputs[Role::stat].empty()) return;
    const Truth truth = backward_truth(problem, inputs, SavedUse::recomputes);
    for (std::size_t i = 0; i < outputs[Role::dx].size(); ++i)
      outputs[Role::dx][i] = static_cast<float>(truth.out[Role::dx][i].hi);
  };
  const auto rows_dropped = [](const runner::Call& call, Inputs& outputs) {
    if (call.problem.shape[0] % 2 == 1)
      for (float& value : outputs[Role::dgamma]) value *= 0.5F;
  };
  const auto accumulates_not = [](const runner::Call& call, Inputs& outputs) {
    for (const Role role : {Role::dgamma, Role::dbeta})
      for (std::size_t i = 0; i < call.inputs[role].size(); ++i) outputs[role][i] -= call.inputs[role][i];
  };
  const auto finite_for_nan = [](const runner::Call&, Inputs& outputs) {
    for (const Role role : gradient_roles)
      for (float& value : outputs[role])
        if (std::isnan(value)) value = 0;
  };
  const auto not_linear = [](const runner::Call&, Inputs& outputs) {
    for (float& value : outputs[Role::dbeta]) value += 1e-3F;
  };
  const auto looks_at_the_neighbour = [](const runner::Call& call, Inputs& outputs) {
    const auto& dy = call.inputs[Role::dy];
    for (std::size_t i = 0; i + 1 < dy.size(); ++i) outputs[Role::dx][i] += 1e-3F * dy[i + 1];
  };
  const auto one_for_zero = [](const runner::Call&, Inputs& outputs) {
    for (float& value : outputs[Role::dx])
      if (value == 0) value = 1e-9F;
  };
  constexpr Phase training = Phase::backward_training;
  return {{"a thousandth too large", &gradients, training, scale_dx(1.001F)},
          {"two ulps too large", &exact_gradients, training, scale_dx(1 + 0x1p-22F)},
          {"a thousandth too large", &finite_differences_of_the_forward, training, scale_dx(1.001F)},
          {"the formula of inference", &gradient_identities, training, inference_formula},
          {"the formula of inference", &training_and_inference, training, inference_formula},
          {"half of dgamma lost where samples are odd", &split_rows, training, rows_dropped},
          {"overwrites where it accumulates", &split_rows, training, accumulates_not},
          {"zeros for NaN", &special_gradients, training, finite_for_nan},
          {"an offset in dbeta", &cotangent_linearity, training, not_linear},
          {"dx of the neighbour's dy", &training_and_inference, Phase::backward_inference, looks_at_the_neighbour},
          {"not exactly zero", &single_value, training, one_for_zero}};
}

TEST(WrongKernels, AreRejectedByTheProperty) {
  const auto kernel = kernel_of(Variant::layer_norm, SavedUse::short_form);
  for (const WrongKernel& wrong : wrong_kernels()) {
    bool rejected = false;
    for (const Convention& convention : kernel.conventions) {
      const Subject subject{row_of(Variant::layer_norm), wrong.phase, kernel, convention};
      if (!wrong.property->applies(subject)) continue;
      const std::int64_t at_most = wrong.property == &finite_differences_of_the_forward ? 40 : most_elements;
      rejected = rejected || try_property(*wrong.property, subject, wrong.mistake, at_most).violation.has_value();
    }
    EXPECT_TRUE(rejected) << wrong.name << " by " << wrong.property->name;
  }
}

}  // namespace
}  // namespace normgate
