// The corpus: problems that showed a bug once (known_bugs.txt, embedded when the project is built).
#pragma once

#include <string>
#include <vector>

#include "properties/generators/plan.hpp"

namespace normgate {

struct CorpusLine {
  std::string provenance;  // the comment above it
  std::string line;
};
[[nodiscard]] std::vector<CorpusLine> corpus_lines();

// Appends the corpus' problems of the planner's variant and phase; lines that do not parse are an error of the corpus,
// which its test finds.
void add_corpus(Planner& planner, const Subject& subject);

}  // namespace normgate
