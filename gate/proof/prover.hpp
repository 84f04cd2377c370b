// Many problems on which the tiers of the truth must agree. The i-th problem follows from the seed and i alone, and
// what is found is put together in the order of the problems, so that nothing but the time depends on the number of
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gate/proof/agreement.hpp"

namespace normgate::proof {

struct ProofOptions {
  std::int64_t problems = 5000;
  std::int64_t from = 0;  // the number of the first
  std::uint64_t seed = 1;
  int threads = 1;
};

struct Finding {
  std::int64_t problem = 0;  // its number
  std::string sentence;
  std::string trial;  // as print() has it
};
// What the proofs say, closest to the truth: certificate / true error, where it is smallest.
struct Tightest {
  double ratio = std::numeric_limits<double>::infinity();
  std::int64_t problem = -1;
  std::string where;
  std::string trial;
};

struct Proof {
  std::int64_t problems = 0;
  std::int64_t built = 0;    // backwards from a boundary
  std::int64_t covered = 0;  // by the fast tier
  tiers::TierCounts counts;  // of elements: which tier decided
  std::int64_t enclosed = 0;
  std::int64_t sides = 0;
  Tightest tightest;
  std::int64_t disagreements = 0;
  std::int64_t undecided = 0;
  std::vector<Finding> findings;  // the first of both
};
inline constexpr std::size_t most_findings = 20;

// The i-th problem: every tenth is built backwards from a boundary.
[[nodiscard]] Trial trial_of(std::uint64_t seed, std::int64_t problem);
// Takes one problem into a proof.
void take_in(Proof& proof, std::int64_t problem, const Trial& trial);
// `report` is called by this thread now and then with the number of problems done.
[[nodiscard]] Proof prove(const ProofOptions& options, const std::function<void(std::int64_t done)>& report);

}  // namespace normgate::proof
