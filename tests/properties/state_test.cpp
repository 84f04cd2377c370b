// The properties of sequences of steps, and of inference with a batch's own statistics: a perfect kernel (the truth,
// rounded once) is right in every problem of their plans, and kernels with one mistake are wrong in at least one. No
// kernel runs here: outcomes are made from the truth, so what is examined is the properties' own arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

constexpr std::int64_t most_elements = 400;

std::uint64_t bit(Role role) { return std::uint64_t{1} << index_of(role); }

runner::KernelInfo kernel_of(Variant variant) {
  runner::KernelInfo kernel;
  kernel.name = "test/perfect";
  kernel.variant = variant;
  kernel.phases = {Phase::forward_training, Phase::forward_inference};
  for (const Phase phase : kernel.phases)
    kernel.roles[static_cast<std::size_t>(phase)].supported = bit(Role::gamma) | bit(Role::beta) | bit(Role::mean) |
                                                              bit(Role::stat) | bit(Role::running_mean) |
                                                              bit(Role::running_var) | bit(Role::running_weight);
  kernel.conventions = {Convention{}};
  const auto add = [&](auto&& change) {
    Convention convention;
    change(convention);
    kernel.conventions.push_back(convention);
  };
  add([](Convention& c) { c.stored = StoredDivisor::n; });
  add([](Convention& c) { c.momentum = MomentumForm::old_weight; });
  add([](Convention& c) { c.momentum = MomentumForm::cumulative; });
  add([](Convention& c) { c.momentum = MomentumForm::accumulated_weight; });
  add([](Convention& c) { c.single = SingleCount::unchanged; });
  add([](Convention& c) { c.single = SingleCount::zero; });
  add([](Convention& c) { c.normalizing = NormalizingDivisor::n_minus_1; });
  add([](Convention& c) { c.eps = EpsPlacement::outside; });
  add([](Convention& c) { c.eps = EpsPlacement::floor; });
  add([](Convention& c) { c.gamma = GammaOffset::plus_one; });
  add([](Convention& c) { c.saved = SavedStatistic::variance; });
  kernel.channels_last = kernel.padded = kernel.strided = kernel.mixed = kernel.in_place = true;
  kernel.claim.layout_invariant = true;
  return kernel;
}

// A mistake changes outputs; it may look at the call, and remember.
using Mistake = std::function<void(const runner::Call&, Inputs& outputs)>;

class MadeBench final : public Bench {
 public:
  MadeBench(const runner::KernelInfo& kernel, Mistake mistake) : kernel_(kernel), mistake_(std::move(mistake)) {}
  [[nodiscard]] std::vector<runner::Outcome> run(std::span<const runner::Call> calls) override {
    std::vector<runner::Outcome> result;
    for (const runner::Call& call : calls) {
      const Truth truth = forward_truth(call.problem, call.inputs);
      runner::Outcome outcome;
      for (const Role role : output_roles)
        for (const Exact& value : truth.out[role]) outcome.outputs[role].push_back(static_cast<float>(value.hi));
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

struct Tried {
  std::int64_t judged = 0;
  std::int64_t elements = 0;
  std::optional<Violation> violation;
  std::string problem;
};

Tried try_property(const Property& property, const Subject& subject, const Mistake& mistake) {
  Tried result;
  MadeBench bench(subject.kernel, mistake);
  for (const Problem& problem : property.plan(subject, Effort::quick, 1)) {
    if (element_count(problem.shape) > most_elements) continue;
    const Case c(problem, property.wanted);
    const auto calls = property.calls(c, subject);
    const Judgement judgement = property.judge(c, subject, bench.run(calls), bench);
    result.elements += judgement.elements;
    if (!judgement.discarded) ++result.judged;
    if (judgement.violation && !result.violation) {
      result.violation = judgement.violation;
      result.problem = print(problem);
    }
  }
  return result;
}

Phase phase_of(const Property& property) {
  return &property == &sequences ? Phase::forward_training : Phase::forward_inference;
}

class StateProperties : public testing::TestWithParam<Variant> {};

TEST_P(StateProperties, APerfectKernelIsRight) {
  const auto kernel = kernel_of(GetParam());
  std::int64_t units = 0;
  for (const Property* property : {&sequences, &own_statistics})
    for (const Convention& convention : kernel.conventions) {
      const Subject subject{row_of(GetParam()), phase_of(*property), kernel, convention};
      if (!property->applies(subject)) continue;
      ++units;
      const Tried tried = try_property(*property, subject, {});
      EXPECT_FALSE(tried.violation.has_value())
          << property->name << " " << tried.problem << "\n at " << tried.violation->at << " got "
          << tried.violation->got << " want " << tried.violation->want << " " << tried.violation->error;
      EXPECT_GT(tried.judged, 0) << property->name << " " << print(convention);
      EXPECT_GT(tried.elements, 0) << property->name << " " << print(convention);
    }
  EXPECT_GT(units, 2);
}

INSTANTIATE_TEST_SUITE_P(Rows, StateProperties,
                         testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                         Variant::instance_norm, Variant::rms_norm),
                         [](const auto& info) { return std::string(row_of(info.param).name); });

// One mistake each, in batch_norm.
struct WrongKernel {
  std::string_view name;
  const Property* property;
  MomentumForm momentum;
  Mistake mistake;
};

std::vector<WrongKernel> wrong_kernels() {
  using Calls = std::shared_ptr<std::vector<runner::Call>>;
  const auto scaled = [](Role role, float factor, bool (*when)(const runner::Call&)) {
    return [role, factor, when](const runner::Call& call, Inputs& outputs) {
      if (!when(call)) return;
      for (float& value : outputs[role]) value *= factor;
    };
  };
  // What it wrote at the step before, in place of what it is handed, where the next step follows.
  const auto goes_on = [last = Calls(std::make_shared<std::vector<runner::Call>>())](const runner::Call& call,
                                                                                     Inputs& outputs) {
    if (!call.problem.running) return;
    if (!last->empty() && last->back().problem.step + 1 == call.problem.step &&
        last->back().problem.shape == call.problem.shape && last->back().problem.momentum == call.problem.momentum) {
      runner::Call own = call;
      own.inputs[Role::running_mean] = last->back().inputs[Role::running_mean];
      const Truth truth = forward_truth(own.problem, own.inputs, Wanted::statistics);
      for (std::size_t i = 0; i < outputs[Role::running_mean].size(); ++i)
        outputs[Role::running_mean][i] = static_cast<float>(truth.out[Role::running_mean][i].hi);
    }
    last->assign(1, call);
    last->back().inputs[Role::running_mean] = outputs[Role::running_mean];
  };
  // A batch that it has seen in the call before is no update.
  const auto guesses = [last = std::make_shared<Inputs>()](const runner::Call& call, Inputs& outputs) {
    if (!call.problem.running || call.inputs[Role::x].empty()) return;
    if (call.inputs[Role::x] == (*last)[Role::x]) outputs[Role::running_mean] = call.inputs[Role::running_mean];
    *last = call.inputs;
  };
  const auto decays_when_empty = [](const runner::Call& call, Inputs& outputs) {
    if (call.inputs[Role::x].empty())
      for (float& value : outputs[Role::running_var]) value *= 0.875F;
  };
  return {{"a 65536th too large", &sequences, MomentumForm::new_weight,
           scaled(Role::running_mean, 1 + 0x1p-16F, [](const runner::Call&) { return true; })},
          {"wrong from step 256 on", &sequences, MomentumForm::cumulative,
           scaled(Role::running_var, 1.01F, [](const runner::Call& call) { return call.problem.step >= 256; })},
          {"a weight not updated", &sequences, MomentumForm::accumulated_weight,
           [](const runner::Call& call, Inputs& outputs) {
             outputs[Role::running_weight] = call.inputs[Role::running_weight];
           }},
          {"goes on from its own state", &sequences, MomentumForm::new_weight, goes_on},
          {"takes one batch twice for a recomputation", &sequences, MomentumForm::old_weight, guesses},
          {"decays in an empty batch", &sequences, MomentumForm::new_weight, decays_when_empty},
          {"inference with n/(n-1)", &own_statistics, MomentumForm::new_weight,
           [](const runner::Call& call, Inputs& outputs) {
             if (call.problem.phase != Phase::forward_inference) return;
             const auto n = static_cast<float>(std::max<std::int64_t>(2, group_size(call.problem)));
             for (float& value : outputs[Role::y]) value *= std::sqrt((n - 1) / n);
           }},
          {"training off by a thousandth", &own_statistics, MomentumForm::new_weight,
           scaled(Role::y, 1.001F,
                  [](const runner::Call& call) { return call.problem.phase == Phase::forward_training; })}};
}

TEST(WrongState, IsRejected) {
  const auto kernel = kernel_of(Variant::batch_norm);
  for (const WrongKernel& wrong : wrong_kernels()) {
    Convention convention;
    convention.momentum = wrong.momentum;
    const Subject subject{row_of(Variant::batch_norm), phase_of(*wrong.property), kernel, convention};
    ASSERT_TRUE(wrong.property->applies(subject)) << wrong.name;
    EXPECT_TRUE(try_property(*wrong.property, subject, wrong.mistake).violation.has_value()) << wrong.name;
  }
}

// What the plan of sequences promises: each course, first steps that reach counts of 8 and 16 bits, momentum 0 and 1,
// and states far from the batch.
TEST(Sequences, PlanCoversCoursesStepsAndStates) {
  const auto kernel = kernel_of(Variant::batch_norm);
  const Subject subject{row_of(Variant::batch_norm), Phase::forward_training, kernel, kernel.conventions.front()};
  std::array<int, 3> courses{};
  bool eight = false, sixteen = false, none = false, whole = false, large = false, small = false;
  for (const Problem& problem : sequences.plan(subject, Effort::quick, 1)) {
    ++courses[problem.key % 3];
    eight = eight || problem.step == 254;
    sixteen = sixteen || problem.step == 65533;
    none = none || problem.momentum == 0;
    whole = whole || problem.momentum == 1;
    for (const float value : problem.values[Role::running_var]) {
      large = large || value >= 0x1p30F;
      small = small || (value > 0 && value <= 0x1p-30F);
    }
  }
  for (const int count : courses) EXPECT_GE(count, 10);
  EXPECT_TRUE(eight && sixteen && none && whole && large && small);
}

}  // namespace
}  // namespace normgate
