// What would explain a wrong result: another convention, another algorithm than the claimed, or a known mistake. It is
// information and never changes a verdict.
//
// To add a hypothesis: a line in the list of diagnosis.cpp, at its place in the order; the most specific come first,
// since a looser one explains everything.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "properties/property.hpp"

namespace normgate {

struct Explanation {
  std::string diagnosis;   // short and stable, groups findings
  std::string looks_like;  // a sentence, with how to declare it where it can be declared
};

// `outcome` is what the subject's kernel gave for `problem` and `inputs`. `only`: a diagnosis, tried alone (to ask
// whether a smaller problem shows the same mistake); empty: all.
[[nodiscard]] std::optional<Explanation> diagnose(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                                  const runner::Outcome& outcome, std::string_view only = {});

}  // namespace normgate
