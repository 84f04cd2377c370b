// What would explain a wrong result: another convention, another algorithm than the claimed, or a known mistake. It is
// information and never changes a verdict; a wrong explanation is worse than none.
//
// To add a hypothesis: a line in one of the lists in diagnosis/ (forward*.cpp, backward*.cpp), with the outputs that it
// predicts. It is compared with every judged element of the call, those that did not fail as well as those that did.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/property.hpp"

namespace normgate {

struct Explanation {
  std::string diagnosis;   // short and stable, groups findings
  std::string looks_like;  // a sentence
  std::string advice;      // how to declare it where it can be declared; empty where other cases contradict it
  int rank = 1;            // of several that hold the least counts; a looser one explains whatever a tighter one does
  // Wrong values that the hypothesis predicts and that are neither 0 nor without a finite value: few of them are a
  // coincidence.
  std::int64_t matched = 0;
  double residual = 0;  // what it leaves of the error
};
constexpr std::int64_t matched_at_least = 4;

// `outcome` is what the subject's kernel gave for `problem` and `inputs`.
struct Diagnosed {
  bool wrong = false;  // whether there is anything to explain
  std::vector<Explanation> found;
};
// `only`: a diagnosis, tried alone (to ask whether a smaller problem shows the same mistake); empty: all.
[[nodiscard]] Diagnosed explanations(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                     const runner::Outcome& outcome, std::string_view only = {});

// Whether a result, right or wrong, is not what the hypothesis predicts.
[[nodiscard]] bool contradicts(const Problem& problem, const Inputs& inputs, const Subject& subject,
                               const runner::Outcome& outcome, std::string_view diagnosis);

// The explanations of the least rank as one: itself, or all of two or three (short groups make formulas coincide), none
// of more.
[[nodiscard]] std::optional<Explanation> agreed(std::vector<Explanation> found);

// What one case alone shows.
[[nodiscard]] std::optional<Explanation> diagnose(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                                  const runner::Outcome& outcome, std::string_view only = {});

}  // namespace normgate
