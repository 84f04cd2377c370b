// What a kernel claims about its arithmetic; the bounds (reference/bounds) follow from it and from the input.
// The runner makes it from the C ABI's ng_claim; the numbers are the same.
#pragma once

#include <cmath>
#include <cstdint>

namespace normgate {

enum class ScalarType : std::int32_t { float32 = 0, float64 = 1 };
enum class VarianceAlgorithm : std::int32_t { two_pass = 0, one_pass = 1, welford = 2 };
enum class AffineForm : std::int32_t { centred = 0, folded = 1 };
enum class SumOrder : std::int32_t { sequential = 0, interleaved = 1, pairwise = 2, blocked = 3 };
enum class Subnormals : std::int32_t { kept = 0, flushed = 1 };
enum class SavedUse : std::int32_t { undeclared = 0, short_form = 1, textbook = 2, recomputes = 3, from_output = 4 };

// How a sum is ordered; `depth(n)` is the number of additions on the longest path from a term to the result
// that can round: the C ABI's formulas, but never more than n-1.
struct Sum {
  SumOrder order = SumOrder::sequential;
  std::int64_t lanes = 1;
  std::int64_t block = 1;
  friend bool operator==(const Sum&, const Sum&) = default;
};
[[nodiscard]] std::int64_t depth(const Sum& sum, std::int64_t n);

struct Claim {
  ScalarType accumulator{};
  ScalarType statistics{};
  VarianceAlgorithm variance{};
  AffineForm form{};
  Sum group_sum;
  Sum across_groups;
  double rsqrt_ulp = 0;
  Subnormals subnormals{};
  SavedUse saved_use{};
  bool constant_exact = false;
  bool scale_covariant = false;
  bool row_independent = false;
  bool batch_invariant = false;
  bool ieee_specials = false;
  bool divides_by_n = false;
  bool deterministic = true;
  bool layout_invariant = false;
  bool thread_invariant = false;
  bool caller_state_invariant = false;
  friend bool operator==(const Claim&, const Claim&) = default;
};

}  // namespace normgate
