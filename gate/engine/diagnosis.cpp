// The hypotheses about a wrong result, asked one after the other.
//
// A hypothesis explains a result if every judged element lies near the predicted one, those that are right as well as
// those that are wrong, and if the error against the prediction is a small part of the error against the truth
// (diagnosis/evidence.hpp). Those that follow from a problem with another parameter are computed by the reference
// (`whole`), those about a formula or about the statistics of a group in double. Algorithms are recognized by what only
// they do (rank 2), and what is left is described rather than explained (rank 3).
#include "gate/engine/diagnosis.hpp"

#include <algorithm>
#include <vector>

#include "gate/engine/diagnosis/backward.hpp"
#include "gate/engine/diagnosis/forward.hpp"
#include "gate/engine/diagnosis/merge.hpp"

namespace normgate {
namespace {

// Of one diagnosis with several variants the one that matches most.
std::vector<Explanation> one_of_each(const std::vector<Explanation>& found) {
  std::vector<Explanation> result;
  for (const Explanation& explanation : found) {
    const auto same = std::find_if(result.begin(), result.end(),
                                   [&](const Explanation& other) { return other.diagnosis == explanation.diagnosis; });
    if (same == result.end())
      result.push_back(explanation);
    else if (explanation.matched > same->matched)
      *same = explanation;
  }
  return result;
}

}  // namespace

Diagnosed explanations(const Problem& problem, const Inputs& inputs, const Subject& subject,
                       const runner::Outcome& outcome, std::string_view only) {
  if (outcome.status != runner::Status::ok) return {};
  if (problem.phase == Phase::double_backward) return {};  // no hypotheses yet
  Diagnosed diagnosed =
      is_statistics(problem.phase) ? diagnosis::MergeDiagnosis(problem, inputs, subject, outcome, only).find()
      : is_backward(problem.phase) ? diagnosis::BackwardDiagnosis(problem, inputs, subject, outcome, only).find()
                                   : diagnosis::ForwardDiagnosis(problem, inputs, subject, outcome, only).find();
  diagnosed.found = one_of_each(diagnosed.found);
  return diagnosed;
}

bool contradicts(const Problem& problem, const Inputs& inputs, const Subject& subject, const runner::Outcome& outcome,
                 std::string_view diagnosis) {
  if (outcome.status != runner::Status::ok || problem.phase == Phase::double_backward) return false;
  if (is_statistics(problem.phase))
    return diagnosis::MergeDiagnosis(problem, inputs, subject, outcome, diagnosis).contradicts();
  if (is_backward(problem.phase))
    return diagnosis::BackwardDiagnosis(problem, inputs, subject, outcome, diagnosis).contradicts();
  return diagnosis::ForwardDiagnosis(problem, inputs, subject, outcome, diagnosis).contradicts();
}

std::optional<Explanation> agreed(std::vector<Explanation> found) {
  if (found.empty()) return std::nullopt;
  const auto rank = std::min_element(found.begin(), found.end(), [](const Explanation& a, const Explanation& b) {
                      return a.rank < b.rank;
                    })->rank;
  std::erase_if(found, [&](const Explanation& explanation) { return explanation.rank != rank; });
  // One that leaves roundings is not in doubt because of one that leaves a tenth.
  const double residual = std::min_element(found.begin(), found.end(), [](const Explanation& a, const Explanation& b) {
                            return a.residual < b.residual;
                          })->residual;
  std::erase_if(found, [&](const Explanation& explanation) { return explanation.residual > 4 * residual + 1e-6; });
  if (found.size() > 3) return std::nullopt;
  Explanation all = found.front();
  for (std::size_t i = 1; i < found.size(); ++i) {
    all.diagnosis += ", or " + found[i].diagnosis;
    all.looks_like += "; or " + found[i].looks_like;
    all.advice.clear();
  }
  return all;
}

std::optional<Explanation> diagnose(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                    const runner::Outcome& outcome, std::string_view only) {
  std::vector<Explanation> found = explanations(problem, inputs, subject, outcome, only).found;
  std::erase_if(found, [](const Explanation& explanation) { return explanation.matched < matched_at_least; });
  return agreed(std::move(found));
}

}  // namespace normgate