// Calls: data that arrive and come back through every layout and fence, and every misdeed told as it happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/runner/runner.hpp"

namespace normgate::runner {
namespace {

const Plugin& plugin() {
  static const Plugin result = [] {
    auto probed = probe(std::string(TEST_PLUGINS) + "/behaviours.so", {});
    if (const auto* error = std::get_if<HarnessError>(&probed)) throw std::runtime_error(error->sentence);
    return std::get<Plugin>(std::move(probed));
  }();
  return result;
}

std::int32_t kernel_named(const std::string& name) {
  for (const KernelInfo& kernel : plugin().kernels)
    if (kernel.name == name) return kernel.index;
  throw std::runtime_error("no kernel " + name);
}

Worker make_worker(Options options = {}) { return Worker(plugin(), plugin().targets[0], 1, options); }

// Every input tensor is a ramp of its own.
Inputs ramps(const Problem& problem) {
  Inputs inputs;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!use_of(problem, role).read) continue;
    const AxisSet axes = axes_of(role, row_of(problem.variant));
    inputs[role].resize(static_cast<std::size_t>(element_count(restricted(problem.shape, axes))));
    if (!problem.layout[role].broadcast.empty()) {
      std::fill(inputs[role].begin(), inputs[role].end(), static_cast<float>(1000 * (r + 1)));
      continue;
    }
    std::iota(inputs[role].begin(), inputs[role].end(), static_cast<float>(1000 * (r + 1)));
  }
  return inputs;
}

Problem small_problem() {
  Problem problem;
  problem.shape = {2, 1, 8, 1};
  return problem;
}

Call call_of(const std::string& kernel, const Problem& problem, Filling filling = Filling::nan) {
  Call call;
  call.kernel = kernel_named(kernel);
  call.problem = problem;
  call.inputs = ramps(problem);
  call.filling = filling;
  return call;
}

Outcome run_one(Worker& worker, const Call& call) { return worker.run({&call, 1}).at(0); }
Outcome run_one(const std::string& kernel, const Problem& problem, Options options = {}) {
  Worker worker = make_worker(options);
  return run_one(worker, call_of(kernel, problem));
}

std::string sentences(const Outcome& outcome) {
  std::string text = "status " + std::to_string(static_cast<int>(outcome.status)) + " text '" + outcome.text + "'";
  for (const Finding& finding : outcome.findings) text += "\n  " + finding.sentence;
  return text;
}

// What `good` computes.
void expect_good(const Call& call, const Outcome& outcome) {
  const Problem& problem = call.problem;
  ASSERT_EQ(outcome.status, Status::ok) << sentences(outcome);
  EXPECT_TRUE(outcome.findings.empty()) << print(problem) << "\n" << sentences(outcome);
  const VariantRow& row = row_of(problem.variant);
  const AxisSet all{Axis::n, Axis::g, Axis::k, Axis::s};
  std::vector<float> y(static_cast<std::size_t>(element_count(problem.shape)));
  std::vector<float> last(static_cast<std::size_t>(group_count(problem)));
  Shape at{};
  for (at[0] = 0; at[0] < problem.shape[0]; ++at[0])
    for (at[1] = 0; at[1] < problem.shape[1]; ++at[1])
      for (at[2] = 0; at[2] < problem.shape[2]; ++at[2])
        for (at[3] = 0; at[3] < problem.shape[3]; ++at[3]) {
          const auto i = static_cast<std::size_t>(dense_index(problem.shape, all, at));
          const auto c = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
          y[i] = call.inputs[Role::x][i] + (problem.gamma ? call.inputs[Role::gamma][c] : 0);
          last[static_cast<std::size_t>(group_index(problem, at))] = call.inputs[Role::x][i];
        }
  EXPECT_EQ(outcome.outputs[Role::y], y) << print(problem);
  if (use_of(problem, Role::mean).write) {
    EXPECT_EQ(outcome.outputs[Role::mean], last) << print(problem);
  }
  if (use_of(problem, Role::stat).write) {
    EXPECT_EQ(outcome.outputs[Role::stat], last) << print(problem);
  }
  if (use_of(problem, Role::running_mean).write) {
    std::vector<float> mean = call.inputs[Role::running_mean];
    std::vector<float> variance = call.inputs[Role::running_var];
    for (float& value : mean) value += 1;
    for (float& value : variance) value *= 2;
    EXPECT_EQ(outcome.outputs[Role::running_mean], mean);
    EXPECT_EQ(outcome.outputs[Role::running_var], variance);
  }
}

// What `good` computes in a backward phase.
void expect_good_gradients(const Call& call, const Outcome& outcome) {
  const Problem& problem = call.problem;
  ASSERT_EQ(outcome.status, Status::ok) << print(problem) << "\n" << sentences(outcome);
  EXPECT_TRUE(outcome.findings.empty()) << print(problem) << "\n" << sentences(outcome);
  const VariantRow& row = row_of(problem.variant);
  const AxisSet all{Axis::n, Axis::g, Axis::k, Axis::s};
  const Role from = problem.from_output ? Role::y : Role::x;
  std::vector<float> dx(static_cast<std::size_t>(element_count(problem.shape)));
  const auto channels = static_cast<std::size_t>(problem.shape[1] * problem.shape[2]);
  const auto old = [&](Role role) {
    return use_of(problem, role).read ? call.inputs[role] : std::vector<float>(channels, 0.0F);
  };
  std::vector<float> dgamma = old(Role::dgamma);
  std::vector<float> dbeta = old(Role::dbeta);
  const bool mean = use_of(problem, Role::mean).read;
  Shape at{};
  for (at[0] = 0; at[0] < problem.shape[0]; ++at[0])
    for (at[1] = 0; at[1] < problem.shape[1]; ++at[1])
      for (at[2] = 0; at[2] < problem.shape[2]; ++at[2])
        for (at[3] = 0; at[3] < problem.shape[3]; ++at[3]) {
          const auto i = static_cast<std::size_t>(dense_index(problem.shape, all, at));
          const auto c = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
          const auto q = static_cast<std::size_t>(group_index(problem, at));
          dx[i] = call.inputs[Role::dy][i] + (problem.gamma ? call.inputs[Role::gamma][c] : 0) +
                  (mean ? call.inputs[Role::mean][q] : 0);
          if (at[0] + 1 < problem.shape[0] || at[3] + 1 < problem.shape[3]) continue;
          dgamma[c] += call.inputs[Role::dy][i];
          dbeta[c] += call.inputs[from][i];
        }
  EXPECT_EQ(outcome.outputs[Role::dx], dx) << print(problem);
  EXPECT_EQ(outcome.outputs[Role::dgamma], problem.gamma ? dgamma : std::vector<float>()) << print(problem);
  EXPECT_EQ(outcome.outputs[Role::dbeta], problem.beta ? dbeta : std::vector<float>()) << print(problem);
  for (const Role role : {Role::dy, Role::x, Role::y, Role::mean, Role::stat})
    EXPECT_TRUE(outcome.outputs[role].empty()) << print(problem) << " " << name_of(role);
}

Layout layout(std::array<Axis, axis_count> order, std::int64_t step, std::int64_t pad) { return {order, step, pad}; }

std::vector<Call> good_calls() {
  const std::array<Layout, 5> layouts{
      Layout{}, layout({Axis::n, Axis::s, Axis::g, Axis::k}, 1, 0), layout({Axis::n, Axis::g, Axis::k, Axis::s}, 2, 0),
      layout({Axis::n, Axis::g, Axis::k, Axis::s}, 1, 3), layout({Axis::s, Axis::k, Axis::n, Axis::g}, 3, 2)};
  std::vector<Call> calls;
  for (const VariantRow& row : variant_table())
    for (std::size_t l = 0; l < layouts.size(); ++l)
      for (const Shape shape : {Shape{2, 3, 4, 5}, Shape{1, 1, 1, 1}, Shape{3, 1, 64, 1}, Shape{2, 1, 700, 3}})
        for (const Fence fence : {Fence::right, Fence::left})
          for (const std::int32_t misalign : {0, 1, 3})
            for (const bool in_place : {false, true}) {
              Problem problem;
              problem.variant = row.variant;
              problem.shape = shape;
              for (std::size_t r = 0; r < role_count; ++r)
                problem.layout[static_cast<Role>(r)] = layouts[(l + (in_place ? 0 : r)) % layouts.size()];
              problem.fence = fence;
              problem.misalign = misalign;
              problem.in_place = in_place;
              problem.saved = true;
              problem.running = !row.running.empty();
              problem.gamma = misalign != 1;
              calls.push_back(call_of("good", problem, misalign == 3 ? Filling::huge : Filling::nan));
            }
  return calls;
}

TEST(Runner, GoodKernelThroughLayoutsFencesAndMisalignments) {
  const std::vector<Call> calls = good_calls();
  Worker worker = make_worker();
  const auto outcomes = worker.run(calls);
  ASSERT_EQ(outcomes.size(), calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) expect_good(calls[i], outcomes[i]);
  EXPECT_EQ(worker.restarts(), 0);
}

TEST(Runner, InProcessGivesTheSame) {
  Options options;
  options.in_process = true;
  Worker worker = make_worker(options);
  const std::vector<Call> calls = good_calls();
  const auto outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) expect_good(calls[i], outcomes[i]);
  const Outcome tail = run_one(worker, call_of("unwritten_tail", small_problem()));
  ASSERT_EQ(tail.findings.size(), 1U);
  EXPECT_EQ(tail.findings[0].kind, FindingKind::unwritten);
}

TEST(Runner, EmptyTensors) {
  Problem problem = small_problem();
  problem.shape = {0, 1, 8, 1};
  const Outcome outcome = run_one("good", problem);
  EXPECT_EQ(outcome.status, Status::ok) << sentences(outcome);
  EXPECT_TRUE(outcome.findings.empty()) << sentences(outcome);
  EXPECT_TRUE(outcome.outputs[Role::y].empty());
}

TEST(Runner, CallCarriesWhatTheProblemSays) {
  Problem problem = small_problem();
  problem.eps = 0.25;
  problem.momentum = 0.75;
  problem.step = 7;
  problem.beta = false;
  problem.convention.stored = StoredDivisor::n;
  problem.convention.eps = EpsPlacement::outside;
  const Outcome outcome = run_one("tells_call", problem);
  ASSERT_EQ(outcome.status, Status::ok) << sentences(outcome);
  const std::vector<float>& y = outcome.outputs[Role::y];
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 8), (std::vector<float>{0.25, 0.75, 7, 1, 1, 2, 1, 1}));
}

TEST(Runner, ManyCallsInBatches) {
  Worker worker = make_worker();
  Problem problem = small_problem();
  problem.shape = {1, 1, 64, 1};
  const std::vector<Call> calls(2000, call_of("good", problem));
  const auto outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) expect_good(calls[i], outcomes[i]);
}

TEST(Runner, LargeTensorsBesideSmallOnes) {
  Worker worker = make_worker();
  Problem large = small_problem();
  large.shape = {3, 1, 2'000'000, 1};
  std::vector<Call> calls;
  for (int i = 0; i < 6; ++i) calls.push_back(call_of("good", i % 2 == 0 ? large : small_problem()));
  const auto outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) expect_good(calls[i], outcomes[i]);
}

TEST(Runner, CallThatNoMachineHasMemoryForIsSkipped) {
  Worker worker = make_worker();
  std::vector<Call> calls{call_of("good", small_problem()), call_of("good", small_problem())};
  // Padding makes the span absurd while the values stay few.
  calls[0].problem.layout[Role::x].pad = std::int64_t{1} << 40U;
  const auto outcomes = worker.run(calls);
  EXPECT_EQ(outcomes[0].status, Status::no_memory);
  expect_good(calls[1], outcomes[1]);
}

// ---- backward ------------------------------------------------------------------------------------------------------

// Layouts, fences, in place, expanded dy, absent parameters, from the output, accumulated, both phases, all rows.
std::vector<Call> good_backward_calls() {
  const std::array<Layout, 4> layouts{Layout{}, layout({Axis::n, Axis::s, Axis::g, Axis::k}, 1, 0),
                                      layout({Axis::n, Axis::g, Axis::k, Axis::s}, 2, 3),
                                      layout({Axis::s, Axis::k, Axis::n, Axis::g}, 3, 2)};
  std::vector<Call> calls;
  std::size_t i = 0;
  for (const VariantRow& row : variant_table())
    for (const Shape shape : {Shape{2, 3, 4, 5}, Shape{1, 1, 1, 1}, Shape{3, 1, 64, 1}, Shape{2, 1, 0, 3}})
      for (const bool training : {true, false})
        for (const bool saved : {false, true})
          for (const int place : {0, 1, 2, 3}) {  // apart, in place, expanded, expanded along s
            Problem problem;
            problem.variant = row.variant;
            problem.phase = training ? Phase::backward_training : Phase::backward_inference;
            problem.shape = shape;
            problem.saved = training && saved;
            problem.from_output = problem.saved && i % 3 == 0;
            if (!training) problem.given = !row.running.empty() && saved ? Given::running : Given::saved;
            problem.gamma = i % 4 != 1;
            problem.beta = i % 5 != 1;
            problem.convention.gradients = i % 2 == 0 ? Gradients::overwrite : Gradients::accumulate;
            for (std::size_t r = 0; r < role_count; ++r)
              problem.layout[static_cast<Role>(r)] = layouts[(i + (place == 1 ? 0 : r)) % layouts.size()];
            problem.in_place = place == 1;
            if (place == 2) problem.cotangent = Cotangent::ones;
            if (place == 2) problem.layout[Role::dy].broadcast = {Axis::n, Axis::g, Axis::k, Axis::s};
            if (place == 3) problem.cotangent = Cotangent::pooled;
            if (place == 3) problem.layout[Role::dy].broadcast = {Axis::s};
            problem.fence = i % 2 == 0 ? Fence::right : Fence::left;
            problem.misalign = i % 3 == 0 ? 3 : 0;
            calls.push_back(call_of("good", problem, i % 7 == 0 ? Filling::huge : Filling::nan));
            EXPECT_EQ(check(problem), "");
            ++i;
          }
  return calls;
}

TEST(Runner, GoodBackwardThroughLayoutsInPlaceExpandedAndAccumulated) {
  const std::vector<Call> calls = good_backward_calls();
  Worker worker = make_worker();
  const auto outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) expect_good_gradients(calls[i], outcomes[i]);
  EXPECT_EQ(worker.restarts(), 0);
}

TEST(Runner, InProcessGivesTheSameGradients) {
  Options options;
  options.in_process = true;
  Worker worker = make_worker(options);
  const std::vector<Call> calls = good_backward_calls();
  const auto outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) expect_good_gradients(calls[i], outcomes[i]);
}

// ---- misdeeds ------------------------------------------------------------------------------------------------------

void expect_fault(const Outcome& outcome, Role role, std::int64_t byte, const std::string& sentence) {
  EXPECT_EQ(outcome.status, Status::crashed) << sentences(outcome);
  ASSERT_EQ(outcome.findings.size(), 1U) << sentences(outcome);
  EXPECT_EQ(outcome.findings[0].kind, FindingKind::fault);
  EXPECT_EQ(outcome.findings[0].role, role);
  EXPECT_EQ(outcome.findings[0].byte, byte);
  EXPECT_EQ(outcome.findings[0].sentence, sentence);
  EXPECT_NE(outcome.text.find("segmentation fault (SIGSEGV) in run"), std::string::npos) << outcome.text;
}
void expect_finding(const Outcome& outcome, FindingKind kind, Role role, const std::string& sentence) {
  EXPECT_EQ(outcome.status, Status::ok) << sentences(outcome);
  ASSERT_EQ(outcome.findings.size(), 1U) << sentences(outcome);
  EXPECT_EQ(outcome.findings[0].kind, kind);
  EXPECT_EQ(outcome.findings[0].role, role);
  EXPECT_EQ(outcome.findings[0].sentence, sentence);
}

TEST(Runner, AccessesOutsideFaultAtTheFence) {
  Problem left = small_problem();
  left.fence = Fence::left;
  expect_fault(run_one("over_read", small_problem()), Role::x, 64, "read 4 bytes past the end of x");
  expect_fault(run_one("under_read", left), Role::x, -4, "read 4 bytes before the start of x");
  expect_fault(run_one("over_write", small_problem()), Role::y, 64, "wrote 4 bytes past the end of y");
  expect_fault(run_one("under_write", left), Role::y, -4, "wrote 4 bytes before the start of y");
  expect_fault(run_one("write_input", small_problem()), Role::x, 12, "wrote to the input x[0,0,3,0]");
}

TEST(Runner, WritesOnTheOpenSideAreFoundInTheFilling) {
  Problem left = small_problem();
  left.fence = Fence::left;
  expect_finding(run_one("over_write", left), FindingKind::wrote_outside, Role::y, "wrote 4 bytes past the end of y");
  expect_finding(run_one("under_write", small_problem()), FindingKind::wrote_outside, Role::y,
                 "wrote 4 bytes before the start of y");
}

TEST(Runner, GapsAreVerified) {
  Problem problem = small_problem();
  problem.layout[Role::y].step = 2;
  const Outcome outcome = run_one("ignores_strides", problem);
  EXPECT_EQ(outcome.status, Status::ok);
  ASSERT_EQ(outcome.findings.size(), 2U) << sentences(outcome);
  EXPECT_EQ(outcome.findings[0].kind, FindingKind::wrote_outside);
  EXPECT_EQ(outcome.findings[0].byte, 4);
  EXPECT_EQ(outcome.findings[1].kind, FindingKind::unwritten);
  EXPECT_EQ(outcome.findings[1].sentence, "left 8 of 16 elements of y unwritten, the first y[1,0,0,0]");
}

TEST(Runner, UnwrittenOutputsAreCounted) {
  for (const Filling filling : {Filling::nan, Filling::huge}) {
    Worker worker = make_worker();
    expect_finding(run_one(worker, call_of("unwritten_tail", small_problem(), filling)), FindingKind::unwritten,
                   Role::y, "left 3 of 16 elements of y unwritten, the first y[1,0,5,0]");
  }
}

Problem small_backward() {
  Problem problem = small_problem();
  problem.phase = Phase::backward_training;
  problem.saved = true;
  return problem;
}

TEST(Runner, ExpandedGradientIsOneElementBetweenFences) {
  Problem expanded = small_backward();
  expanded.cotangent = Cotangent::ones;
  expanded.layout[Role::dy].broadcast = {Axis::n, Axis::g, Axis::k, Axis::s};
  expect_good_gradients(call_of("good", expanded), run_one("good", expanded));
  expect_fault(run_one("dy_as_contiguous", expanded), Role::dy, 4, "read 4 bytes past the end of dy");
  // One element for each row, and the kernel reads the second row's as the first one's second.
  Problem pooled = small_backward();
  pooled.shape = {2, 1, 4, 3};
  pooled.cotangent = Cotangent::pooled;
  pooled.layout[Role::dy].broadcast = {Axis::s};
  expect_fault(run_one("dy_as_contiguous", pooled), Role::dy, 32, "read 4 bytes past the end of dy");
}

TEST(Runner, ValuesThatShareTheirMemoryMustBeEqual) {
  Problem problem = small_backward();
  problem.cotangent = Cotangent::ones;
  problem.layout[Role::dy].broadcast = {Axis::k};
  Call call = call_of("good", problem);
  Worker worker = make_worker();
  // Two samples, each with a gradient of its own.
  for (std::size_t i = 8; i < 16; ++i) call.inputs[Role::dy][i] = 5;
  expect_good_gradients(call, run_one(worker, call));
  call.inputs[Role::dy][15] = 6;
  try {
    (void)run_one(worker, call);
    FAIL() << "different values for one element were laid";
  } catch (const HarnessError& error) {
    EXPECT_EQ(error.sentence, "a call gives different values for elements of dy that are one in memory");
  }
}

TEST(Runner, UpstreamGradientIsReadOnlyUnlessInPlace) {
  expect_fault(run_one("write_dy", small_backward()), Role::dy, 12, "wrote to the input dy[0,0,3,0]");
  Problem in_place = small_backward();
  in_place.in_place = true;
  const Call call = call_of("write_dy", in_place);
  Worker worker = make_worker();
  const Outcome outcome = run_one(worker, call);
  EXPECT_EQ(outcome.status, Status::ok) << sentences(outcome);
  EXPECT_TRUE(outcome.findings.empty()) << sentences(outcome);
  EXPECT_EQ(outcome.outputs[Role::dx][3], 1.0F);
  EXPECT_EQ(outcome.outputs[Role::dx][4],
            call.inputs[Role::dy][4] + call.inputs[Role::gamma][4] + call.inputs[Role::mean][0]);
  EXPECT_TRUE(outcome.outputs[Role::dy].empty());
}

TEST(Runner, WritesPastAGradientInPlaceNameBoth) {
  Problem in_place = small_backward();
  in_place.in_place = true;
  in_place.layout[Role::dy].step = in_place.layout[Role::dx].step = 2;
  const Outcome outcome = run_one("dy_as_contiguous", in_place);
  EXPECT_EQ(outcome.status, Status::ok) << sentences(outcome);
  // It writes back what it reads: nothing changes, in the gaps neither.
  EXPECT_TRUE(outcome.findings.empty()) << sentences(outcome);
  in_place.layout[Role::dy].step = in_place.layout[Role::dx].step = 1;
  in_place.shape = {1, 1, 2, 1};
  expect_fault(run_one("write_dy", in_place), Role::dy, 12, "wrote 8 bytes past the end of dy (dx in place)");
}

TEST(Runner, UnwrittenParameterGradientsAreFound) {
  for (const Filling filling : {Filling::nan, Filling::huge}) {
    Worker worker = make_worker();
    const Outcome outcome = run_one(worker, call_of("no_parameter_gradients", small_backward(), filling));
    EXPECT_EQ(outcome.status, Status::ok) << sentences(outcome);
    ASSERT_EQ(outcome.findings.size(), 2U) << sentences(outcome);
    EXPECT_EQ(outcome.findings[0].kind, FindingKind::unwritten);
    EXPECT_EQ(outcome.findings[0].role, Role::dgamma);
    EXPECT_EQ(outcome.findings[0].sentence, "left 8 of 8 elements of dgamma unwritten, the first dgamma[0,0,0,0]");
    EXPECT_EQ(outcome.findings[1].sentence, "left 8 of 8 elements of dbeta unwritten, the first dbeta[0,0,0,0]");
  }
  // Where they are added to, what was there is a value like any other: that it is the wrong one is not told here.
  Problem accumulated = small_backward();
  accumulated.convention.gradients = Gradients::accumulate;
  const Call call = call_of("no_parameter_gradients", accumulated);
  Worker worker = make_worker();
  const Outcome outcome = run_one(worker, call);
  EXPECT_TRUE(outcome.findings.empty()) << sentences(outcome);
  EXPECT_EQ(outcome.outputs[Role::dgamma], call.inputs[Role::dgamma]);
}

TEST(Runner, OldGradientsAreThereOnlyWhereTheyAccumulate) {
  Problem problem = small_backward();
  problem.convention.gradients = Gradients::accumulate;
  const Call accumulated = call_of("adds_always", problem);
  Worker worker = make_worker();
  const Outcome added = run_one(worker, accumulated);
  for (std::size_t c = 0; c < 8; ++c) {
    // Each of the two samples adds 1.
    EXPECT_EQ(added.outputs[Role::dgamma][c], accumulated.inputs[Role::dgamma][c] + 2);
    EXPECT_EQ(added.outputs[Role::dbeta][c], accumulated.inputs[Role::dbeta][c] + 2);
  }
  problem.convention.gradients = Gradients::overwrite;
  const Outcome poisoned = run_one(worker, call_of("adds_always", problem));
  for (const float value : poisoned.outputs[Role::dgamma]) EXPECT_TRUE(std::isnan(value));
  const Outcome huge = run_one(worker, call_of("adds_always", problem, Filling::huge));
  for (const float value : huge.outputs[Role::dgamma]) EXPECT_GT(value, 1e38F);
}

TEST(Runner, PlansAreNotKeptWhereMemoryIsSharedInAnotherWay) {
  Problem apart = small_backward();
  Problem in_place = apart;
  in_place.in_place = true;
  Problem expanded = apart;
  expanded.cotangent = Cotangent::ones;
  expanded.layout[Role::dy].broadcast = {Axis::n, Axis::g, Axis::k, Axis::s};
  std::vector<Call> calls;
  for (const Problem* problem : {&apart, &in_place, &in_place, &apart, &expanded, &in_place, &expanded, &apart})
    calls.push_back(call_of("plan_in_place", *problem));
  Worker worker = make_worker();
  const auto outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) expect_good_gradients(calls[i], outcomes[i]);
}

TEST(Runner, EndsOfTheProcessAreTold) {
  const Outcome exits = run_one("exits", small_problem());
  EXPECT_EQ(exits.status, Status::exited);
  EXPECT_EQ(exits.text, "the kernel ended the process with exit status 0 in run");
  const Outcome aborts = run_one("aborts", small_problem());
  EXPECT_EQ(aborts.status, Status::crashed);
  EXPECT_EQ(aborts.text, "abort (SIGABRT) in run");
  const Outcome null = run_one("null_pointer", small_problem());
  EXPECT_EQ(null.status, Status::crashed);
  EXPECT_EQ(null.text, "segmentation fault (SIGSEGV) in run: wrote through a null pointer (address 0x8)");
#if defined(__x86_64__)
  const Outcome misaligned = run_one("misaligned", small_problem());
  EXPECT_EQ(misaligned.status, Status::crashed);
  EXPECT_NE(misaligned.text.find("misaligned access"), std::string::npos) << misaligned.text;
#endif
}

TEST(Runner, HangsAreEnded) {
  Options cpu;
  cpu.cpu_seconds = 0.2;
  EXPECT_EQ(run_one("hangs", small_problem(), cpu).status, Status::timed_out);
  Options wall;
  wall.wall_seconds = 0.2;
  const Outcome outcome = run_one("sleeps", small_problem(), wall);
  EXPECT_EQ(outcome.status, Status::timed_out);
  EXPECT_EQ(outcome.text, "no end in run within 10 s of CPU time or 0.2 s in all");
}

TEST(Runner, GoesOnBehindACallThatFails) {
  Options options;
  options.cpu_seconds = 0.2;
  Worker worker = make_worker(options);
  std::vector<Call> calls;
  const std::vector<std::string> names{"good", "exits", "good", "over_read", "over_read", "good", "hangs", "good"};
  for (int round = 0; round < 20; ++round)
    for (const std::string& name : names)
      if (round % 10 == 3 || name == "good") calls.push_back(call_of(name, small_problem()));
  const auto outcomes = worker.run(calls);
  std::int64_t failed = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].kernel == kernel_named("good")) {
      expect_good(calls[i], outcomes[i]);
      continue;
    }
    ++failed;
    const Outcome alone = run_one(worker, calls[i]);
    EXPECT_EQ(outcomes[i].status, alone.status);
    EXPECT_EQ(sentences(outcomes[i]), sentences(alone));
    EXPECT_NE(outcomes[i].status, Status::ok);
  }
  EXPECT_EQ(failed, 8);
  EXPECT_EQ(worker.restarts(), 2 * failed);
}

TEST(Runner, OutputIsDrainedAndBounded) {
  Worker worker = make_worker();
  const std::vector<Call> calls(2, call_of("prints", small_problem()));
  for (const Outcome& outcome : worker.run(calls)) EXPECT_EQ(outcome.status, Status::ok) << sentences(outcome);
  EXPECT_EQ(worker.output().size(), std::size_t{64} << 10U);
  EXPECT_EQ(worker.output().substr(0, 3), "###");
}

#if defined(__x86_64__)
TEST(Runner, FloatingPointStateIsCheckedAndRestored) {
  Worker worker = make_worker();
  const std::vector<Call> calls{call_of("flushes_to_zero", small_problem()),
                                call_of("tells_subnormals", small_problem())};
  const auto outcomes = worker.run(calls);
  expect_finding(outcomes[0], FindingKind::environment, Role::x,
                 "changed and did not restore: flush-to-zero (FTZ), denormals-are-zero (DAZ)");
  EXPECT_EQ(outcomes[1].outputs[Role::y], std::vector<float>(16, 1.0F));
  EXPECT_TRUE(outcomes[1].findings.empty());
}

TEST(Runner, ACallerMayHaveSetFlushToZeroAndFindsItSet) {
  Worker worker = make_worker();
  std::vector<Call> calls(3, call_of("tells_subnormals", small_problem()));
  calls[1].flushing_caller = true;
  const auto outcomes = worker.run(calls);
  EXPECT_EQ(outcomes[0].outputs[Role::y], std::vector<float>(16, 1.0F));
  EXPECT_EQ(outcomes[1].outputs[Role::y], std::vector<float>(16, 0.0F));
  EXPECT_EQ(outcomes[2].outputs[Role::y], std::vector<float>(16, 1.0F));
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.findings.empty()) << sentences(outcome);
  // What is set already is no change.
  Call flushes = call_of("flushes_to_zero", small_problem());
  flushes.flushing_caller = true;
  EXPECT_TRUE(run_one(worker, flushes).findings.empty());
}
#endif

TEST(Runner, StatusesAndTexts) {
  Worker worker = make_worker();
  const auto outcome = [&](const std::string& name) { return run_one(worker, call_of(name, small_problem())); };
  EXPECT_EQ(outcome("invalid_status").status, Status::invalid_status);
  EXPECT_EQ(outcome("invalid_status").text, "run returned 17; an ng_status is 0 to 3");
  EXPECT_EQ(outcome("refuses").status, Status::refused);
  EXPECT_EQ(outcome("refuses").text, "not on a?[31m Tuesday");
  EXPECT_EQ(outcome("supports_nothing").status, Status::unsupported);
  EXPECT_EQ(outcome("supports_nothing").text, "only k = 7");
  EXPECT_EQ(outcome("throws").status, Status::invalid_status);
  EXPECT_EQ(outcome("throws").text, "run let an exception out: out of luck");
  EXPECT_EQ(outcome("endless_text").status, Status::failed);
  EXPECT_EQ(outcome("endless_text").text.substr(0, 5), "aaaaa");
  EXPECT_EQ(worker.restarts(), 0);
  const Outcome overflow = outcome("text_overflow");
  EXPECT_EQ(overflow.status, Status::crashed);
  EXPECT_EQ(overflow.text, "segmentation fault (SIGSEGV) in run: wrote 4 bytes past the end of the text buffer");
}

TEST(Runner, PlansAreReleasedWhateverHappens) {
  Worker worker = make_worker();
  std::vector<Call> calls(5, call_of("plans", small_problem()));
  calls[2].problem.step = 3;
  const auto outcomes = worker.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(outcomes[i].status, i == 2 ? Status::failed : Status::ok) << i << sentences(outcomes[i]);
  EXPECT_EQ(outcomes[2].text, "out of memory");
}

TEST(Runner, WorkspaceIsPoisonedAndFenced) {
  for (const Filling filling : {Filling::nan, Filling::huge}) {
    Worker worker = make_worker();
    const Call call = call_of("workspace_used", small_problem(), filling);
    expect_good(call, run_one(worker, call));
  }
  expect_finding(run_one("workspace_over", small_problem()), FindingKind::wrote_outside, Role::x,
                 "wrote 4 bytes past the end of the workspace");
  const Outcome far = run_one("workspace_far", small_problem());
  EXPECT_EQ(far.status, Status::crashed);
  EXPECT_EQ(far.text, "segmentation fault (SIGSEGV) in run: wrote 32 bytes past the end of the workspace");
}

TEST(Runner, DeclaredAlignmentAndOverReadAreGranted) {
  for (const Fence fence : {Fence::right, Fence::left})
    for (const std::int32_t misalign : {0, 1, 5}) {
      Problem problem = small_problem();
      problem.shape = {1, 1, 13, 1};
      problem.fence = fence;
      problem.misalign = misalign;
      const Outcome outcome = run_one("tells_alignment", problem);
      ASSERT_EQ(outcome.status, Status::ok) << sentences(outcome);
      EXPECT_TRUE(outcome.findings.empty());
      EXPECT_EQ(outcome.outputs[Role::y][0], 0);
    }
}

TEST(Runner, LateWritesAreFound) {
  Worker worker = make_worker();
  const Outcome alone = run_one(worker, call_of("late_write", small_problem()));
  expect_finding(alone, FindingKind::late_write, Role::y, "wrote y[0,0,1,0] after the call had returned");
}

TEST(Runner, LateCrashIsNotTheNextCallsFault) {
  Worker worker = make_worker();
  std::vector<Call> calls(3000, call_of("good", small_problem()));
  calls[0] = call_of("late_crash", small_problem());
  const auto outcomes = worker.run(calls);
  std::vector<Finding> findings;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, Status::ok) << sentences(outcome);
    EXPECT_EQ(outcome.outputs[Role::y].size(), 16U);
    findings.insert(findings.end(), outcome.findings.begin(), outcome.findings.end());
  }
  EXPECT_EQ(worker.restarts(), 1);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, FindingKind::fault);
  EXPECT_NE(findings[0].sentence.find("left running: segmentation fault"), std::string::npos) << findings[0].sentence;
}

TEST(Runner, CrashInAThreadOfTheCallIsItsOwn) {
  const Outcome outcome = run_one("crashes_in_a_thread", small_problem());
  EXPECT_EQ(outcome.status, Status::crashed);
  EXPECT_EQ(outcome.text, "segmentation fault (SIGSEGV) in run: wrote 4 bytes past the end of y");
}

TEST(Runner, WorkersCanBeMoved) {
  Worker first = make_worker();
  Worker second = std::move(first);
  const Call call = call_of("good", small_problem());
  expect_good(call, run_one(second, call));
}

// `good` adds 1 to running_mean in each run.
TEST(Runner, TimedRunsFollowTheRunProper) {
  Worker worker = make_worker();
  Problem problem = small_problem();
  problem.variant = Variant::batch_norm;
  problem.running = true;
  Call call = call_of("good", problem);
  const Outcome once = run_one(worker, call);
  ASSERT_EQ(once.status, Status::ok) << sentences(once);
  EXPECT_EQ(once.nanoseconds, 0);
  call.timed_runs = 9;
  const Outcome timed = run_one(worker, call);
  ASSERT_EQ(timed.status, Status::ok) << sentences(timed);
  EXPECT_TRUE(timed.findings.empty()) << sentences(timed);
  EXPECT_GT(timed.nanoseconds, 0);
  EXPECT_LT(timed.nanoseconds, 1e9);
  ASSERT_EQ(timed.outputs[Role::running_mean].size(), 8U);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(timed.outputs[Role::running_mean][i], call.inputs[Role::running_mean][i] + 10);
  EXPECT_EQ(timed.outputs[Role::y], once.outputs[Role::y]);
}

TEST(Runner, WrongUseIsAnError) {
  Worker worker = make_worker();
  Call call = call_of("good", small_problem());
  call.inputs[Role::x].pop_back();
  EXPECT_THROW((void)run_one(worker, call), HarnessError);
  call = call_of("good", small_problem());
  call.kernel = 1000;
  EXPECT_THROW((void)run_one(worker, call), HarnessError);
}

}  // namespace
}  // namespace normgate::runner
