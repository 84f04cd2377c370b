#include "properties/corpus/corpus.hpp"

#include <sstream>

#include "generated/corpus.hpp"

namespace normgate {
namespace {

constexpr std::int64_t most_elements_of_others = 4096;

}  // namespace

std::vector<CorpusLine> corpus_lines() {
  std::vector<CorpusLine> result;
  std::istringstream text{std::string(corpus_text)};
  std::string provenance;
  for (std::string line; std::getline(text, line);) {
    if (line.empty()) {
      provenance.clear();
    } else if (line.front() == '#') {
      provenance += provenance.empty() ? line.substr(1) : line;
    } else {
      result.push_back({provenance, line});
    }
  }
  return result;
}

void add_corpus(Planner& planner, const Subject& subject) {
  for (const CorpusLine& entry : corpus_lines()) {
    const auto parsed = parse_problem(entry.line);
    if (!parsed.problem || parsed.problem->variant != subject.row.variant || parsed.problem->phase != subject.phase)
      continue;
    // Other conventions than the first change formulas, not what only many elements show.
    if (planner.primary() || element_count(parsed.problem->shape) <= most_elements_of_others)
      planner.add(*parsed.problem);
  }
}

}  // namespace normgate
