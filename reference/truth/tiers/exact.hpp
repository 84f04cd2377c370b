// The exact tier: on which side of a number an output of the definition lies, always decided, and so its correct
// rounding. It knows every output as a sum of (a + b sqrt(w)) / c with exact integers (exact.cpp says how).
#pragma once

#include <cstdint>
#include <memory>

#include "reference/problem/claim.hpp"
#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/tiers/rounding.hpp"

namespace normgate::tiers {

// How an answer was found: by an enclosure of 512 bits, which only sums of several roots need, or by algebra.
enum class ExactBy : std::int32_t { intervals, algebra };

class ExactValues {
 public:
  // Keeps references to both. `use` matters in backward_training with saved statistics, as in backward_truth(); a
  // problem with from_output has its own use, whatever is asked for.
  //
  // Group scalars are computed where they are needed first, in one pass over the group, and those of some 2^16 groups
  // are kept (1 kB each).
  ExactValues(const Problem& problem, const Inputs& inputs, SavedUse use = SavedUse::undeclared);
  ~ExactValues();
  ExactValues(const ExactValues&) = delete;
  ExactValues& operator=(const ExactValues&) = delete;

  // The sign of (value of the element - numerator/divisor), divisor > 0, both finite. The role is one that the problem
  // writes, and the element's value by the definition (definition_forward, definition_backward) is finite: what is not
  // is none of this tier's business.
  struct Comparison {
    int sign = 0;
    ExactBy by = ExactBy::algebra;
  };
  [[nodiscard]] Comparison compare(Role role, std::size_t at, double numerator, double divisor = 1);

  // Round to nearest, ties to even. The value is known to round to something from `ends.low` to `ends.high`; infinite
  // ends will do, near ones are faster.
  struct Rounding {
    double value = 0;
    ExactBy by = ExactBy::algebra;  // the last resort that was needed
  };
  [[nodiscard]] Rounding round(Role role, std::size_t at, Format format, const RoundedEnds& ends);

 private:
  class Expressions;
  std::unique_ptr<Expressions> expressions_;
};

}  // namespace normgate::tiers
