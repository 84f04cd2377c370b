// partition_and_merge judges a kernel that is perfect (the truth, rounded once) as right in every problem of its plan,
// and kernels with one mistake as wrong in at least one. No kernel runs here: outcomes are made from the truth or by
// the mistake, so what is examined is the property's own arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "properties/judging.hpp"
#include "properties/list.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::uint64_t bit(Role role) { return std::uint64_t{1} << index_of(role); }

runner::KernelInfo kernel_of(Variant variant, bool takes_statistics) {
  runner::KernelInfo kernel;
  kernel.name = "test/perfect";
  kernel.variant = variant;
  kernel.phases = {Phase::merge_statistics};
  if (takes_statistics) kernel.phases.insert(kernel.phases.begin(), Phase::statistics);
  std::uint64_t roles = bit(Role::stat) | bit(Role::part_stat) | bit(Role::part_count);
  if (row_of(variant).centred) roles |= bit(Role::mean) | bit(Role::part_mean);
  for (const Phase phase : kernel.phases) kernel.roles[static_cast<std::size_t>(phase)] = {roles, roles};
  kernel.conventions = {Convention{}};
  kernel.channels_last = kernel.padded = kernel.strided = kernel.mixed = true;
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
      const Truth truth = forward_truth(call.problem, call.inputs);
      runner::Outcome outcome;
      for (const Role role : {Role::mean, Role::stat})
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

struct Tally {
  std::int64_t problems = 0;
  std::int64_t elements = 0;
  std::int64_t violated = 0;
  std::int64_t of_the_whole = 0;  // violations from end to end
  std::string first;
};

Tally judged(Variant variant, bool takes_statistics, const Mistake& mistake) {
  const runner::KernelInfo kernel = kernel_of(variant, takes_statistics);
  const Subject subject{row_of(variant), Phase::merge_statistics, kernel, kernel.conventions.front()};
  MadeBench bench(kernel, mistake);
  Tally tally;
  EXPECT_TRUE(partition_and_merge.applies(subject));
  for (const Problem& problem : partition_and_merge.plan(subject, Effort::quick, 1)) {
    EXPECT_EQ(check(problem), "") << print(problem);
    const Case c(problem, Wanted::statistics);
    const auto calls = partition_and_merge.calls(c, subject);
    const auto outcomes = bench.run(calls);
    const Judgement judgement = partition_and_merge.judge(c, subject, outcomes, bench);
    ++tally.problems;
    tally.elements += judgement.elements;
    if (!judgement.violation) continue;
    if (tally.violated++ == 0)
      tally.first = print(problem) + "\n" + judgement.violation->at + " got " + judgement.violation->got + " want " +
                    judgement.violation->want + " " + judgement.violation->error;
    tally.of_the_whole += judgement.violation->at.find("of the whole") != std::string::npos;
  }
  return tally;
}

class Merging : public testing::TestWithParam<std::tuple<Variant, bool>> {};

TEST_P(Merging, APerfectKernelPasses) {
  const auto [variant, takes_statistics] = GetParam();
  const Tally tally = judged(variant, takes_statistics, nullptr);
  EXPECT_GT(tally.problems, 25);
  EXPECT_GT(tally.elements, 1000);
  EXPECT_EQ(tally.violated, 0) << tally.first;
}

INSTANTIATE_TEST_SUITE_P(EveryRow, Merging,
                         testing::Combine(testing::Values(Variant::batch_norm, Variant::layer_norm, Variant::group_norm,
                                                          Variant::instance_norm, Variant::rms_norm),
                                          testing::Bool()));

TEST(Merging, ALastPartLostIsFound) {
  const Tally tally = judged(Variant::batch_norm, true, [](const runner::Call& call, Inputs& outputs) {
    if (call.problem.phase != Phase::merge_statistics || group_size(call.problem) < 2) return;
    Inputs inputs = call.inputs;
    inputs[Role::part_count].back() = 0;
    const Truth truth = forward_truth(call.problem, inputs);
    for (const Role role : {Role::mean, Role::stat})
      for (std::size_t i = 0; i < outputs[role].size(); ++i)
        outputs[role][i] = static_cast<float>(truth.out[role][i].hi);
  });
  EXPECT_GT(tally.violated, 20);
}

// Statistics of parts over n-1: the merge itself is right, the union of what it is handed is not the whole.
TEST(Merging, WrongStatisticsOfThePartsAreFoundFromEndToEnd) {
  const Tally tally = judged(Variant::group_norm, true, [](const runner::Call& call, Inputs& outputs) {
    const std::int64_t n = group_size(call.problem);
    if (call.problem.phase != Phase::statistics || n < 2) return;
    for (float& value : outputs[Role::stat]) value *= static_cast<float>(n) / static_cast<float>(n - 1);
  });
  EXPECT_GT(tally.of_the_whole, 5);
  EXPECT_EQ(tally.violated, tally.of_the_whole) << tally.first;
}

// Right in the given order, wrong in another.
TEST(Merging, APartThatIsTakenForTheLargestOneIsFoundByTheOrder) {
  const Tally tally = judged(Variant::layer_norm, true, [](const runner::Call& call, Inputs& outputs) {
    if (call.problem.phase != Phase::merge_statistics) return;
    const std::vector<float>& counts = call.inputs[Role::part_count];
    if (counts.size() < 2 || counts.front() >= counts.back()) return;
    for (float& value : outputs[Role::stat]) value *= 1.01F;
  });
  EXPECT_GT(tally.violated, 5);
}

}  // namespace
}  // namespace normgate
