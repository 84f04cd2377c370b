// The definition's own code with a type of 50 digits, as a yardstick of speed: what the fast tier is compared with.
#pragma once

#include <memory>
#include <vector>

#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"

namespace normgate::bench {

enum class FiftyDigits : std::int32_t { cpp_bin_float, mpfr };

// The templates of reference/truth (definition-inl.h, gradient-inl.h, parameters-inl.h), a group at a time, with the
// statistics of each group and without anything that proves or rounds its results: they stay in 50 digits, those of y
// and dx in a buffer of the group's size. Of the conventions and uses it knows what the benchmark asks for: gradients
// are the derivative of the forward, overwritten, and nothing is saved or kept running.
class FiftyDigitsDefinition {
 public:
  // Keeps references to both.
  FiftyDigitsDefinition(FiftyDigits type, const Problem& problem, const Inputs& inputs);
  ~FiftyDigitsDefinition();
  FiftyDigitsDefinition(const FiftyDigitsDefinition&) = delete;
  FiftyDigitsDefinition& operator=(const FiftyDigitsDefinition&) = delete;

  void run();
  // y, or dx, dgamma and dbeta, as the nearest doubles: that this is the definition indeed. Runs once more.
  [[nodiscard]] PerRole<std::vector<double>> values();

  class Work;

 private:
  std::unique_ptr<Work> work_;
};

}  // namespace normgate::bench
