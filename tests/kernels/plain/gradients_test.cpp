// The plain kernels' gradients.
#include "tests/kernels/gradients.hpp"

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

TEST(PlainGradients, FollowTheFormulas) {
  const std::vector<Call> calls =
      calls_of(plugin().kernels, {{2, 2, 3, 4}, {3, 1, 5, 1}, {1, 3, 1, 2}, {1, 1, 1, 1}, {4, 1, 2, 33}});
  ASSERT_FALSE(HasFatalFailure());
  runner::Worker worker(plugin(), plugin().targets[0], 1, {});
  const std::vector<Outcome> outcomes = worker.run(calls);
  // Sums of depth n, the statistics' own among them, whose error counts in x and not in the smaller
  // x - mean.
  for (std::size_t i = 0; i < calls.size() && !HasFatalFailure(); ++i) expect_formulas(calls[i], outcomes[i], 64, 8);
}

TEST(PlainGradients, WithoutTermsAreZeroOrWhatWasThere) { expect_empty_sums(plugin()); }

}  // namespace
}  // namespace normgate::gradients
