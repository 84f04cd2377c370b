// The backward properties judge a kernel that is perfect (the truth, rounded once) as right in every small problem of
// their plans, and kernels with one mistake as wrong in at least one. No kernel runs here: outcomes are made from the
// truth, so what is examined is the properties' own arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
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
          &dot_product,
          &jacobian,
          &gradient_identities,
          &cotangent_linearity,
          &training_and_inference,
          &split_rows,
          &exact_gradients,
          &single_value,
          &special_gradients};
}

// A Jacobian is as many calls as there are elements, differences cost their square.
std::int64_t most_of(const Property& property) {
  if (&property == &jacobian) return 24;
  return &property == &finite_differences_of_the_forward ? 40 : most_elements;
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

// What the forward does along a direction, against the closed form of the gradients with the same dy: two texts that
// share no derivative, to 30 digits.
TEST(Tangent, IsWhatTheClosedFormSays) {
  const auto apart = [](const Exact& a, const Exact& b) { return std::fabs((a.hi - b.hi) + (a.lo - b.lo)); };
  for (const VariantRow& row : variant_table())
    for (const Phase phase : {Phase::backward_training, Phase::backward_inference})
      for (const EpsPlacement eps : {EpsPlacement::inside, EpsPlacement::outside, EpsPlacement::floor}) {
        Problem problem;
        problem.variant = row.variant;
        problem.phase = phase;
        problem.shape = {2, 2, 3, 4};
        problem.given = is_training(phase) ? Given::none : Given::saved;
        problem.convention.eps = eps;
        problem.convention.saved = SavedStatistic::variance;
        problem.kappa = 20;
        problem.eps = 0.0625;
        problem.key = 77;
        ASSERT_EQ(check(problem), "");
        Inputs inputs = make_inputs(problem);
        for (const auto& [input, gradient, moved] :
             {std::tuple{Role::x, Role::dx, std::size_t{17}}, std::tuple{Role::gamma, Role::dgamma, std::size_t{4}},
              std::tuple{Role::beta, Role::dbeta, std::size_t{1}}}) {
          Direction direction;
          direction[input].assign(input == Role::x ? inputs[input].size() : 6, 0.0);  // 2 x 3 channels
          direction[input][moved] = 1;
          const Tangent along = tangent(problem, inputs, direction);
          ASSERT_EQ(along.y.size(), inputs[Role::dy].size());
          for (std::size_t i = 0; i < along.y.size(); ++i) {
            std::fill(inputs[Role::dy].begin(), inputs[Role::dy].end(), 0.0F);
            inputs[Role::dy][i] = 1;
            const Truth truth = definition_backward(problem, inputs, SavedUse::recomputes);
            const Exact& closed = truth.out[gradient][moved];
            EXPECT_LE(apart(along.y[i], closed), along.y[i].bound + closed.bound + 1e-31 * std::fabs(closed.hi))
                << print(problem) << " " << name_of(input) << " " << i << " " << along.y[i].hi << " " << closed.hi;
            EXPECT_LE(along.y[i].bound, 1e-29 * (1 + std::fabs(closed.hi)));
          }
        }
      }
}

// Equal elements with eps outside the root, and a variance on the floor, have no derivative; a single value has.
TEST(Tangent, KnowsItsKinks) {
  Problem problem;
  problem.phase = Phase::backward_training;
  problem.shape = {2, 1, 4, 1};
  problem.gamma = problem.beta = false;
  problem.convention.eps = EpsPlacement::outside;
  problem.eps = 0.25;
  problem.values[Role::x] = {3, 3, 3, 3, 1, 2, 3, 4};
  problem.values[Role::dy] = {1, 2, 3, 4, 5, 6, 7, 8};
  Direction direction;
  direction[Role::x] = {1, 0, 0, 0, 1, 0, 0, 0};
  EXPECT_EQ(tangent(problem, make_inputs(problem), direction).kink, (std::vector<bool>{true, false}));
  problem.convention.eps = EpsPlacement::floor;
  problem.eps = 1.25;  // the variance of 1 2 3 4
  EXPECT_EQ(tangent(problem, make_inputs(problem), direction).kink, (std::vector<bool>{false, true}));
  problem.convention.eps = EpsPlacement::inside;
  EXPECT_EQ(tangent(problem, make_inputs(problem), direction).kink, (std::vector<bool>{false, false}));
  problem.convention.eps = EpsPlacement::outside;
  problem.shape = {8, 1, 1, 1};
  EXPECT_EQ(tangent(problem, make_inputs(problem), direction).kink, std::vector<bool>(8, false));
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
        const std::int64_t at_most = most_of(*property);
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
  // dx of gamma times the upstream gradient without gamma: the product with the transposed Jacobian.
  const auto transposed = [](const runner::Call& call, Inputs& outputs) {
    if (!call.problem.gamma) return;
    Problem problem = call.problem;
    problem.gamma = problem.beta = false;
    Inputs inputs = call.inputs;
    inputs[Role::gamma].clear();
    inputs[Role::dgamma].clear();
    inputs[Role::dbeta].clear();
    const Truth truth = backward_truth(problem, inputs, SavedUse::short_form);
    for (std::size_t i = 0; i < outputs[Role::dx].size(); ++i) {
      const std::size_t channel = i / static_cast<std::size_t>(call.problem.shape[3]) % call.inputs[Role::gamma].size();
      outputs[Role::dx][i] = static_cast<float>(truth.out[Role::dx][i].hi) * call.inputs[Role::gamma][channel];
    }
  };
  // Right for every dy but one that is 0 everywhere except in the last element.
  const auto blind_to_the_last = [](const runner::Call& call, Inputs& outputs) {
    const auto& dy = call.inputs[Role::dy];
    if (dy.size() < 2 || std::count(dy.begin(), dy.end(), 0.0F) + 1 != static_cast<std::ptrdiff_t>(dy.size())) return;
    if (dy.back() != 0) std::fill(outputs[Role::dx].begin(), outputs[Role::dx].end(), 0.0F);
  };
  const auto adds_to_dgamma = [](const runner::Call&, Inputs& outputs) {
    for (float& value : outputs[Role::dgamma]) value += 1e-3F;
  };
  const auto one_for_zero = [](const runner::Call&, Inputs& outputs) {
    for (float& value : outputs[Role::dx])
      if (value == 0) value = 1e-9F;
  };
  constexpr Phase training = Phase::backward_training;
  return {{"a thousandth too large", &gradients, training, scale_dx(1.001F)},
          {"two ulps too large", &exact_gradients, training, scale_dx(1 + 0x1p-22F)},
          {"a thousandth too large", &finite_differences_of_the_forward, training, scale_dx(1.001F)},
          {"a thousandth too large", &dot_product, training, scale_dx(1.001F)},
          {"the formula of inference", &dot_product, training, inference_formula},
          {"an offset in dgamma", &dot_product, training, adds_to_dgamma},
          {"the formula of inference", &jacobian, training, inference_formula},
          {"a Jacobian transposed", &jacobian, training, transposed},
          {"nothing of the last element alone", &jacobian, training, blind_to_the_last},
          {"an offset in dgamma", &jacobian, Phase::backward_inference, adds_to_dgamma},
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
      const std::int64_t at_most = most_of(*wrong.property);
      rejected = rejected || try_property(*wrong.property, subject, wrong.mistake, at_most).violation.has_value();
    }
    EXPECT_TRUE(rejected) << wrong.name << " by " << wrong.property->name;
  }
}

}  // namespace
}  // namespace normgate
