// The SIMD kernels' gradients, on every target that this CPU has.
#include "tests/kernels/gradients.hpp"

#include <limits>

namespace normgate::gradients {
namespace {

const runner::Plugin& plugin() {
  static const runner::Plugin result = [] {
    auto probed = runner::probe(TEST_PLUGIN, {});
    if (const auto* error = std::get_if<runner::HarnessError>(&probed)) throw std::runtime_error(error->sentence);
    return std::get<runner::Plugin>(std::move(probed));
  }();
  return result;
}

// Lengths around the 16 lanes, the 64 columns and the 256 elements of a buffer, and rows of several of each.
const std::vector<Shape> shapes{{2, 2, 3, 4},  {3, 1, 5, 1},   {1, 3, 1, 2},  {1, 1, 1, 1},
                                {4, 1, 2, 33}, {70, 1, 3, 1},  {2, 1, 67, 3}, {1, 2, 9, 300},
                                {3, 2, 19, 1}, {1, 1, 523, 1}, {2, 3, 1, 70}};

void expect_same_bits(const Call& call, const Inputs& first, const Inputs& second, const std::string& what) {
  for (const Role role : {Role::dx, Role::dgamma, Role::dbeta}) {
    ASSERT_EQ(first[role].size(), second[role].size());
    for (std::size_t i = 0; i < first[role].size(); ++i) {
      const float a = first[role][i];
      const float b = second[role][i];
      ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
          << what << " " << print(call.problem) << "\n"
          << name_of(role) << "[" << i << "]: " << a << " and " << b;
    }
  }
}

TEST(SimdGradients, FollowTheFormulasWithTheSameBitsOnEveryTarget) {
  const std::vector<Call> calls = calls_of(plugin().kernels, shapes);
  ASSERT_FALSE(HasFatalFailure());
  std::vector<Outcome> first;
  std::string first_name;
  for (const runner::TargetInfo& target : plugin().targets) {
    if (!target.unavailable.empty()) continue;
    SCOPED_TRACE(target.name);
    runner::Worker worker(plugin(), target, 1, {});
    std::vector<Outcome> outcomes = worker.run(calls);
    // Sums and statistics in double: what remains is the last rounding, and some 2^-53 per term.
    for (std::size_t i = 0; i < calls.size() && !HasFatalFailure(); ++i) {
      ASSERT_EQ(outcomes[i].status, runner::Status::ok) << outcomes[i].text;
      if (first.empty())
        expect_formulas(calls[i], outcomes[i], 1.001, 0x1p-20);
      else
        expect_same_bits(calls[i], first[i].outputs, outcomes[i].outputs, first_name + " against " + target.name);
    }
    if (HasFatalFailure()) return;
    if (first.empty()) {
      first = std::move(outcomes);
      first_name = target.name;
    }
  }
  EXPECT_FALSE(first.empty());
}

// Every layout takes another way through memory, and all of them the same order of operations.
TEST(SimdGradients, HaveTheSameBitsInEveryLayoutAndPlace) {
  std::vector<Call> calls = calls_of(plugin().kernels, shapes);
  ASSERT_FALSE(HasFatalFailure());
  std::vector<Call> dense = calls;
  for (Call& call : dense) {
    call.problem.layout = {};
    call.problem.in_place = false;
    call.problem.misalign = call.problem.skew = 0;
  }
  runner::Worker worker(plugin(), plugin().targets[0], 1, {});
  const std::vector<Outcome> outcomes = worker.run(calls);
  const std::vector<Outcome> expected = worker.run(dense);
  for (std::size_t i = 0; i < calls.size() && !HasFatalFailure(); ++i) {
    ASSERT_EQ(expected[i].status, runner::Status::ok) << expected[i].text;
    expect_same_bits(calls[i], outcomes[i].outputs, expected[i].outputs, "dense and");
  }
}

TEST(SimdGradients, WithoutTermsAreZeroOrWhatWasThere) { expect_empty_sums(plugin()); }

// g is infinite in one channel only: what a sum of dy times gamma makes of upstream gradients of both signs is not what
// the sum of g is. ieee_specials promises the latter in every layout.
TEST(SimdGradients, SumInfiniteProductsOneByOne) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<Call> calls;
  for (const runner::KernelInfo& kernel : plugin().kernels)
    for (const Axis inner : {Axis::s, Axis::k, Axis::n})
      for (const bool both_signs : {false, true}) {
        Problem p = plain_problem(kernel, Phase::backward_training, {}, {2, 2, 3, 4});
        for (const Role role : {Role::x, Role::dy, Role::dx})
          if (inner != Axis::s) std::swap(p.layout[role].order[3], p.layout[role].order[inner == Axis::k ? 2 : 0]);
        Call call{kernel.index, p, make_inputs(p), runner::Filling::nan};
        call.inputs[Role::gamma][1] = infinity;
        for (std::size_t i = 0; i < call.inputs[Role::dy].size(); ++i) {
          const float magnitude = 1 + std::fabs(call.inputs[Role::dy][i]);
          call.inputs[Role::dy][i] = both_signs && i % 3 == 0 ? -magnitude : magnitude;
        }
        calls.push_back(std::move(call));
      }
  runner::Worker worker(plugin(), plugin().targets[0], 1, {});
  const std::vector<Outcome> outcomes = worker.run(calls);
  for (std::size_t c = 0; c < calls.size(); ++c) {
    ASSERT_EQ(outcomes[c].status, runner::Status::ok) << outcomes[c].text;
    const Formulas formulas(calls[c].problem, calls[c].inputs);
    for (std::size_t i = 0; i < formulas.dx.size(); ++i) {
      const auto got = static_cast<double>(outcomes[c].outputs[Role::dx][i]);
      const double wanted = formulas.dx[i].value;
      if (std::isfinite(wanted)) continue;
      EXPECT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
          << print(calls[c].problem) << "\ndx[" << i << "] is " << got << ", by the formulas " << wanted;
    }
  }
}

}  // namespace
}  // namespace normgate::gradients
