// The behaviour properties judge a kernel that is perfect (the truth, rounded once) as right, whatever is promised, and
// kernels that look at what they must not (threads, the caller's state, the calls before, where one tensor stands) as
// wrong. No kernel runs here: outcomes are made from the truth.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

constexpr std::int64_t most_elements = 2000;
constexpr std::size_t most_problems = 12;

runner::KernelInfo kernel_of(Variant variant) {
  runner::KernelInfo kernel;
  kernel.name = "test/perfect";
  kernel.variant = variant;
  kernel.phases = {Phase::forward_training, Phase::forward_inference, Phase::backward_training};
  std::uint64_t roles = 0;
  for (const Role role : {Role::gamma, Role::beta, Role::dgamma, Role::dbeta, Role::mean, Role::stat,
                          Role::running_mean, Role::running_var})
    roles |= std::uint64_t{1} << index_of(role);
  for (const Phase phase : kernel.phases) kernel.roles[static_cast<std::size_t>(phase)].supported = roles;
  kernel.conventions = {Convention{}};
  kernel.claim.saved_use = SavedUse::short_form;
  kernel.claim.thread_invariant = kernel.claim.caller_state_invariant = kernel.claim.layout_invariant = true;
  kernel.max_threads = 8;
  kernel.in_place = kernel.gradient_in_place = kernel.channels_last = kernel.padded = true;
  return kernel;
}

// What a kernel makes of a call and of the number of calls before it.
using Mistake = std::function<void(const runner::Call&, std::size_t before, runner::Outcome&)>;

class MadeBench final : public Bench {
 public:
  MadeBench(const runner::KernelInfo& kernel, Mistake mistake) : kernel_(kernel), mistake_(std::move(mistake)) {}
  [[nodiscard]] std::vector<runner::Outcome> run(std::span<const runner::Call> calls) override {
    std::vector<runner::Outcome> result;
    for (const runner::Call& call : calls) {
      const bool backward = is_backward(call.problem.phase);
      const Truth truth = backward ? backward_truth(call.problem, call.inputs,
                                                    call.problem.saved ? kernel_.claim.saved_use : SavedUse::recomputes)
                                   : forward_truth(call.problem, call.inputs);
      runner::Outcome outcome;
      outcome.may_be_refused = call.may_be_refused;
      for (const Role role : output_roles)
        for (const Exact& value : truth.out[role]) outcome.outputs[role].push_back(static_cast<float>(value.hi));
      if (mistake_) mistake_(call, before_, outcome);
      ++before_;
      result.push_back(std::move(outcome));
    }
    return result;
  }
  [[nodiscard]] const runner::KernelInfo& kernel() const override { return kernel_; }

 private:
  const runner::KernelInfo& kernel_;
  Mistake mistake_;
  std::size_t before_ = 0;
};

struct Tried {
  std::int64_t elements = 0;
  std::optional<Violation> violation;
  std::string problem;
};

Tried try_property(const Property& property, const runner::KernelInfo& kernel, Phase phase, const Mistake& mistake,
                   Effort effort = Effort::quick) {
  Tried result;
  const Subject subject{row_of(*kernel.variant), phase, kernel, kernel.conventions.front()};
  EXPECT_TRUE(property.applies(subject)) << property.name;
  std::vector<Problem> small;
  for (const Problem& problem : property.plan(subject, effort, 1))
    if (element_count(problem.shape) <= most_elements) small.push_back(problem);
  const std::size_t step = std::max<std::size_t>(1, small.size() / most_problems);
  for (std::size_t i = 0; i < small.size(); i += step) {
    MadeBench bench(kernel, mistake);
    const Case c(small[i], property.wanted);
    const auto calls = property.calls(c, subject);
    const Judgement judgement = property.judge(c, subject, bench.run(calls), bench);
    result.elements += judgement.elements;
    if (judgement.violation && !result.violation) {
      result.violation = judgement.violation;
      result.problem = print(small[i]);
    }
  }
  return result;
}

void nudge(runner::Outcome& outcome) {
  for (const Role role : {Role::y, Role::dx})
    for (float& value : outcome.outputs[role]) value = std::nextafter(value, INFINITY);
}
void spoil(runner::Outcome& outcome) {
  for (const Role role : {Role::y, Role::dx})
    for (float& value : outcome.outputs[role]) value += 100;
}

class Behaviour : public testing::TestWithParam<Variant> {};

TEST_P(Behaviour, OfAPerfectKernelIsRight) {
  const auto kernel = kernel_of(GetParam());
  for (const Property* property : {&threads, &caller_environment, &repeated_calls, &alignments, &layouts})
    for (const Phase phase : kernel.phases) {
      const Tried tried = try_property(*property, kernel, phase, {});
      EXPECT_FALSE(tried.violation.has_value())
          << property->name << " " << tried.problem << "\n at " << tried.violation->at << " got "
          << tried.violation->got << " want " << tried.violation->want << " " << tried.violation->error;
      EXPECT_GT(tried.elements, 0) << property->name;
    }
}

TEST_P(Behaviour, ThatLooksAtWhatItMustNotIsWrong) {
  const auto kernel = kernel_of(GetParam());
  const auto wrong = [&](const Property& property, const Mistake& mistake) {
    for (const Phase phase : kernel.phases)
      EXPECT_TRUE(try_property(property, kernel, phase, mistake).violation.has_value())
          << property.name << " " << name_of(phase);
  };
  const auto on_threads = [](const runner::Call& call, std::size_t, runner::Outcome& o) {
    if (call.problem.threads > 1) nudge(o);
  };
  const auto under_flush = [](const runner::Call& call, std::size_t, runner::Outcome& o) {
    if (call.flushing_caller) nudge(o);
  };
  const auto leaves_state = [](const runner::Call& call, std::size_t, runner::Outcome& o) {
    if (call.flushing_caller)
      o.findings.push_back({runner::FindingKind::environment, Role::x, 0, "changed and did not restore: FTZ"});
  };
  const auto second_call = [](const runner::Call&, std::size_t before, runner::Outcome& o) {
    if (before == 1) spoil(o);
  };
  const auto eps_of_the_first = [](const runner::Call& call, std::size_t before, runner::Outcome& o) {
    if (before > 0 && (call.problem.eps == 0.25 || call.problem.eps == 0.5)) spoil(o);
  };
  const auto x_moved = [](const runner::Call& call, std::size_t, runner::Outcome& o) {
    if (call.moved[Role::x] == 7) nudge(o);
  };
  wrong(threads, on_threads);
  wrong(caller_environment, under_flush);
  wrong(caller_environment, leaves_state);
  wrong(repeated_calls, second_call);
  wrong(repeated_calls, eps_of_the_first);
  wrong(alignments, x_moved);
}

// Without a promise one ulp is nothing, and a wrong value is. (Beside beta an element may owe all but half an ulp to
// the last rounding, and the bound of a single element may be 0: both are left out.)
TEST_P(Behaviour, IsHeldToBoundsWhereNothingIsPromised) {
  auto kernel = kernel_of(GetParam());
  kernel.claim.thread_invariant = kernel.claim.caller_state_invariant = kernel.claim.layout_invariant = false;
  const std::uint64_t beta = std::uint64_t{1} << index_of(Role::beta);
  for (const Phase phase : kernel.phases) kernel.roles[static_cast<std::size_t>(phase)].supported &= ~beta;
  const auto everywhere = [](const auto& change) {
    return [change](const runner::Call& call, std::size_t, runner::Outcome& o) {
      if (group_size(call.problem) < 4) return;
      if (call.problem.threads > 1 || call.flushing_caller || call.moved[Role::x] == 7) change(o);
    };
  };
  for (const Property* property : {&threads, &caller_environment, &alignments}) {
    EXPECT_FALSE(try_property(*property, kernel, Phase::forward_training, everywhere(nudge)).violation)
        << property->name;
    EXPECT_TRUE(try_property(*property, kernel, Phase::forward_training, everywhere(spoil)).violation)
        << property->name;
  }
}

// Bits that depend on the layout are no matter of threads, also where the call in place has another layout.
TEST_P(Behaviour, OfAPromiseAboutThreadsSaysNothingOfLayouts) {
  auto kernel = kernel_of(GetParam());
  kernel.claim.layout_invariant = false;
  kernel.mixed = true;
  const std::uint64_t beta = std::uint64_t{1} << index_of(Role::beta);
  for (const Phase phase : kernel.phases) kernel.roles[static_cast<std::size_t>(phase)].supported &= ~beta;
  const auto in_place = [](const runner::Call& call, std::size_t, runner::Outcome& o) {
    if (call.problem.in_place && group_size(call.problem) >= 4) nudge(o);
  };
  EXPECT_FALSE(try_property(threads, kernel, Phase::forward_training, in_place, Effort::standard).violation);
}

// Who declines every variation is not tried, and that is counted as a refusal.
TEST_P(Behaviour, OfWhoDeclinesEveryVariationIsRefused) {
  const auto kernel = kernel_of(GetParam());
  const Subject subject{row_of(GetParam()), Phase::forward_training, kernel, kernel.conventions.front()};
  for (const bool all : {true, false}) {
    MadeBench bench(kernel, [all](const runner::Call& call, std::size_t before, runner::Outcome& o) {
      if (!call.may_be_refused || (!all && before == 2)) return;
      o.status = runner::Status::unsupported;
      o.text = "not aligned";
      o.outputs = {};
    });
    const Case c(alignments.plan(subject, Effort::quick, 1).front());
    const Judgement judgement = alignments.judge(c, subject, bench.run(alignments.calls(c, subject)), bench);
    EXPECT_EQ(judgement.declined, all ? "not aligned" : "");
  }
}

// A variation that supports declines says nothing of the others.
TEST_P(Behaviour, OfADeclinedVariationHidesNoOther) {
  const auto kernel = kernel_of(GetParam());
  const auto declines_padding = [](const runner::Call& call, std::size_t, runner::Outcome& o) {
    const bool declined = call.problem.layout[Role::x].pad > 0;
    if (declined) {
      ASSERT_TRUE(call.may_be_refused);
      o.status = runner::Status::unsupported;
      o.outputs = {};
    } else if (call.problem.misalign == 3) {
      spoil(o);
    }
  };
  EXPECT_TRUE(try_property(layouts, kernel, Phase::forward_training, declines_padding).violation);
}

INSTANTIATE_TEST_SUITE_P(EveryRow, Behaviour,
                         testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                         Variant::instance_norm, Variant::rms_norm),
                         [](const auto& info) { return std::string(row_of(info.param).name); });

// Values that a shrunk problem writes out are of its own samples; there are none for those that are added.
TEST(RowIndependence, AddsSamplesToValuesThatAreWrittenOut) {
  const auto kernel = kernel_of(Variant::layer_norm);
  const Subject subject{row_of(Variant::layer_norm), Phase::forward_training, kernel, kernel.conventions.front()};
  const auto problem =
      parse_problem("forward_training layer_norm n=2 g=1 k=2 s=1 gamma=0 beta=0 key=0x5 values=x:[1,2,3,4]");
  ASSERT_TRUE(problem.problem.has_value());
  const Case c(*problem.problem);
  const auto calls = row_independence.calls(c, subject);
  ASSERT_EQ(calls.size(), 3U);
  const std::vector<float>& longer = calls[2].inputs[Role::x];
  ASSERT_GT(longer.size(), 4U);
  EXPECT_EQ(std::vector<float>(longer.begin(), longer.begin() + 4), (std::vector<float>{1, 2, 3, 4}));
  MadeBench bench(kernel, {});
  const Judgement judgement = row_independence.judge(c, subject, bench.run(calls), bench);
  EXPECT_FALSE(judgement.violation.has_value());
  EXPECT_GT(judgement.elements, 0);
}

// Above 2^22 elements groups are judged one by one; what does not fit into memory is skipped with a sentence.
TEST(Extents, LargeTensorsAreJudgedInSamplesOrSkipped) {
  auto kernel = kernel_of(Variant::layer_norm);
  const Subject subject{row_of(Variant::layer_norm), Phase::forward_training, kernel, kernel.conventions.front()};
  Problem large;
  large.shape = {65537, 1, 65, 1};
  large.saved = true;
  large.key = 5;
  const Case c(large);
  const auto calls = extents.calls(c, subject);
  ASSERT_EQ(calls.size(), 1U);
  MadeBench bench(kernel, {});
  auto outcomes = bench.run(calls);
  const Judgement right = extents.judge(c, subject, outcomes, bench);
  EXPECT_FALSE(right.violation) << right.violation->at;
  EXPECT_GT(right.elements, 65 * 5);
  EXPECT_LT(right.elements, 65 * 40);
  outcomes[0].outputs[Role::y][65536 * 65 + 3] += 100;
  EXPECT_TRUE(extents.judge(c, subject, outcomes, bench).violation);

  Problem huge;
  huge.shape = {std::int64_t{1} << 33, 1, 129, 1};
  const Case out_of_memory(huge);
  EXPECT_TRUE(extents.calls(out_of_memory, subject).empty());
  const Judgement skipped = extents.judge(out_of_memory, subject, {}, bench);
  EXPECT_NE(skipped.skipped.find("GiB of memory"), std::string::npos) << skipped.skipped;
}

TEST(Extents, BeyondEveryIndexOfThirtyTwoBitsAtThoroughEffort) {
  const auto kernel = kernel_of(Variant::layer_norm);
  const Subject subject{row_of(Variant::layer_norm), Phase::forward_training, kernel, kernel.conventions.front()};
  std::int64_t longest = 0;
  std::int64_t largest = 0;
  for (const Problem& problem : extents.plan(subject, Effort::thorough, 1)) {
    longest = std::max(longest, group_size(problem));
    largest = std::max(largest, element_count(problem.shape));
  }
  EXPECT_GT(longest, std::int64_t{1} << 24);
  EXPECT_GT(largest, std::int64_t{1} << 31);
  std::set<std::int64_t> counts;
  std::set<std::int64_t> lengths;
  for (const Problem& problem : extents.plan(subject, Effort::quick, 1)) {
    counts.insert(group_count(problem));
    lengths.insert(group_size(problem));
  }
  for (const std::int64_t edge : {65535, 65536, 65537}) {
    EXPECT_TRUE(counts.contains(edge)) << edge;
  }
  EXPECT_TRUE(lengths.contains(65536));
}

}  // namespace
}  // namespace normgate
